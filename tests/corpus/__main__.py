"""What a comparison of all public scripts shows: see ``python -m tests.corpus``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from tests.corpus.compare import Comparison, Rendered, compare
from tests.corpus.originals import (
    Original,
    find_missing_key,
    load_original,
    plan_original,
    read_originals,
    render_original,
)

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "corpus.md"
INTRODUCTION = """\
<!-- Made by python -m tests.corpus --write; changes here are lost. -->
# Public job scripts as job files

{total} public Slurm scripts for training stand as job files in `tests/corpus`, beside facts of the
originals: sbatch and srun options, exported variables, launcher, the program's arguments, and
further steps. A script compares each rendered job with those facts. {whole} of the {compared} that
can be rendered lose nothing.

- *equal*: the fact stands in the rendered job, if need be under another name: `--gres=gpu:8` and
  `--gpus-per-node=8` are one request.
- *on purpose*: jobgen does it in another way. `--output` has no place, because every rank has its
  own log; a variable that only the script itself reads is not exported.
- *lost*: the job cannot say it. The table names each.

| job file | launcher | equal | on purpose | lost |
|---|---|---|---|---|
"""


def compare_original(original: Original) -> list[Comparison]:
    """Every fact of a script, compared with its rendered job."""
    texts = {}
    for variant in load_original(original).value.variants:
        files = render_original(original.id, variant).files
        texts |= {f"{variant}/{f.path}": f.content.decode() for f in files}
    files = render_original(original.id).files
    texts |= {f.path: f.content.decode() for f in files}
    texts = {path: text for path, text in texts.items() if not path.endswith("plan.json")}
    plan = plan_original(original.id)
    plans = [program.plan for program in plan.programs] or [plan]
    launchers = {str(each.launcher.value) for each in plans}
    return compare(original, Rendered(texts, launchers))


def write_page() -> str:
    """docs/explanation/corpus.md."""
    originals = read_originals()
    rows, whole, compared = [], 0, 0
    for original in originals.values():
        name = original.file.removesuffix(".yaml")
        if missing := find_missing_key(original):
            rows.append(f"| {name} | {original.launcher} | | | not rendered: needs `{missing}` |")
            continue
        facts = compare_original(original)
        lost = [c.fact for c in facts if c.verdict == "lost"]
        compared, whole = compared + 1, whole + (not lost)
        equal, differs = (sum(c.verdict == v for c in facts) for v in ("equal", "differs"))
        cell = ", ".join(f"`{fact}`" for fact in lost) or "nothing"
        rows.append(f"| {name} | {original.launcher} | {equal} | {differs} | {cell} |")
    head = INTRODUCTION.format(total=len(originals), whole=whole, compared=compared)
    return head + "\n".join(rows) + "\n\n" + "\n".join(_list_reasons()) + "\n"


def _list_reasons() -> Iterator[str]:
    """Differences that only one script has, each with its reason."""
    yield "Differences on purpose that belong to one script:\n"
    for original in read_originals().values():
        reasons = [(why, fact) for fact, why in original.differs.items()]
        for why, pairs in groupby(sorted(reasons), key=lambda pair: pair[0]):
            facts = ", ".join(f"`{fact}`" for _, fact in pairs)
            yield f"- {original.file.removesuffix('.yaml')}: {facts}: {why}."


def main(words: list[str]) -> int:
    """Print a comparison, or write the page."""
    if words == ["--write"]:
        PAGE.write_text(write_page(), encoding="utf-8")
        return 0
    originals = read_originals()
    for number in words or originals:
        original = originals[number]
        if missing := find_missing_key(original):
            print(f"{original.file}: needs {missing}")
            continue
        facts = compare_original(original)
        lost = [c.fact for c in facts if c.verdict == "lost"]
        print(f"{original.file}: {len(facts)} facts, lost: {', '.join(lost) or 'nothing'}")
        if words:
            print("\n".join(f"  {c.verdict:8} {c.fact}  {c.reason}" for c in facts))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
