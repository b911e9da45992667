"""The page's style sheet: light, dark, narrow, printed."""

CSS = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1a1a1a;--soft:#595959;--rule:#c8c8c8;
--bad:#b3261e;--good:#1d6b33;--warn:#8a5300;--tint:#f4f6f8}
@media (prefers-color-scheme:dark){:root{--paper:#121417;--ink:#e8e8e8;--soft:#a8adb3;
--rule:#3d434a;--bad:#ff8a80;--good:#7fd694;--warn:#f0b95a;--tint:#1b1f24}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);line-height:1.45;font-size:16px;
font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif}
main{max-width:62rem;margin:0 auto;padding:1rem}
h1{font-size:1.6rem;margin:.5rem 0;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2rem 0 .5rem}
p,li{overflow-wrap:anywhere}
svg{display:block;overflow:visible}
.none{position:absolute}
.ink{fill:var(--ink)}.soft{fill:var(--soft)}.bad-ink{fill:var(--bad)}.dot{fill:#2f86c5}
.rule{stroke:var(--rule)}.mark{stroke:var(--ink)}.bad{stroke:var(--bad)}.cut{stroke:var(--paper)}
.outline{stroke:var(--soft)}
text.ink,text.soft{paint-order:stroke;stroke:var(--paper);stroke-width:3px}.edge{stroke:var(--paper)}
.verdict{background:var(--tint);border-left:.4rem solid var(--soft);padding:.6rem .8rem}
p.fits{border-color:var(--good)}p.tight,p.unknown{border-color:var(--warn)}
p.no{border-color:var(--bad)}
.fits strong{color:var(--good)}.tight strong,.unknown strong{color:var(--warn)}
.no strong{color:var(--bad)}
.legend{display:flex;flex-wrap:wrap;gap:.3rem 1.2rem;list-style:none;padding:0;font-size:.9rem}
.legend li{display:flex;align-items:center;gap:.4rem}
.scroll{overflow-x:auto;margin:.8rem 0}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding-bottom:.3rem}
th,td{border-bottom:1px solid var(--rule);padding:.25rem .6rem;text-align:right;
vertical-align:top;white-space:nowrap}
th:first-child,th.words,td.words{text-align:left;white-space:normal}
th:first-child{min-width:9rem;max-width:16rem;overflow-wrap:anywhere;position:sticky;left:0;
background:var(--paper)}tr.chosen th:first-child{background:var(--tint)}
td.words{min-width:14rem;overflow-wrap:anywhere}
tr.chosen{background:var(--tint)}tr.chosen th{font-weight:700}
tbody th{font-weight:400}
@media print{:root{color-scheme:light;--paper:#fff;--ink:#000;--soft:#444;--rule:#999;
--bad:#b3261e;--good:#1d6b33;--warn:#8a5300;--tint:#fff}
@page{size:A4 landscape;margin:12mm}body{font-size:10pt}main{max-width:none;padding:0}
.scroll{overflow:visible}table{font-size:7.5pt}th,td{padding:.1rem .3rem}
td.words{min-width:8rem}svg,tr,.verdict{break-inside:avoid}h2{break-after:avoid}}
"""
