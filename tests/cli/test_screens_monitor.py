"""What show says of a watched job, on a screen and as data."""

from __future__ import annotations

import json

from jobgen.app.monitoring import Watched
from jobgen.cli.output import Ink
from jobgen.cli.screens.monitor import data, section
from jobgen.monitor.facts import overall, remarks
from jobgen.monitor.summary import nodes

GIB = 1024
TEXT = f"""node n1 samples=400 first=1000 last=12000 load=12.31 cpu=34 mem={112 * GIB} mem_total={2048 * GIB} rx=1300000 tx=1100000 rdma_rx=39000000000 rdma_tx=38000000000
gpu n1 0 samples=400 util=97.5 p10=91 idle=2 mem={71 * GIB} mem_total={80 * GIB} temp=71 power=612 limit=700 clock=1755 clock_max=1980 by.sw_power_cap=172 by.idle=2 at=12000 now.util=99 now.mem={70 * GIB} now.temp=70 now.power=650 now.clock=1800 now.by=sw_power_cap
gpu n1 1 samples=400 util=96.5 p10=90 idle=2 mem={70 * GIB} mem_total={80 * GIB} temp=92 power=600 limit=700 clock=1740 clock_max=1980 by.hw_thermal=48 at=12000
node n2 samples=400 first=1000 last=12000
"""  # noqa: E501


def watched(text: str, **known: object) -> Watched:
    found = nodes([text])
    total = overall(found) if found else None
    return Watched(30, found, total, remarks(found))._replace(**known)  # type: ignore[arg-type]


def test_a_row_a_node_and_what_to_look_at() -> None:
    text = section(watched(TEXT), 12003.0, Ink(width=100), gpus=False)
    assert text == (
        "GPUs  2 GPUs on 2 nodes, every 30s, over 3h03m\n"
        "  NODE  GPUS  UTIL  P10  PEAK MEMORY           TEMP  POWER      CLOCK HELD BY\n"
        "  n1    2     97%   90%  71.0 GiB of 80.0 GiB  92 C  606/700 W  power cap 43%, heat 12%\n"
        "  n2    0     -     -    -                     -     -          -\n"
        "\n"
        "Nodes\n"
        "  NODE  LOAD  CPU  PEAK MEMORY           NET IN/OUT            RDMA IN/OUT\n"
        "  n1    12.3  34%  112.0 GiB of 2.0 TiB  1.2 MiB/s, 1.0 MiB/s  36.3 GiB/s, 35.4 GiB/s\n"
        "  n2    -     -    -                     -                     -\n"
        "\n"
        "  [warn] n1 GPU 1: slowed down (heat) for 12% of the time, up to 92 C\n"
    )


def test_every_gpu_as_it_was_last_seen() -> None:
    text = section(watched(TEXT), 12003.0, Ink(width=100), gpus=True)
    assert "Now  3s ago\n" in text
    row = "  n1    0    99%   70.0 GiB of 80.0 GiB  70 C  650 W  1800 MHz  power cap\n"
    assert row in text


def test_nothing_was_written_yet() -> None:
    text = section(watched("", unread="no sample was written"), 0.0, Ink(), gpus=True)
    assert text == "Monitor  every 30s: no sample was written\n"


def test_of_many_nodes_those_with_a_remark_are_shown() -> None:
    lines = [
        f"node n{i} samples=9 first=1 last=9\n"
        f"gpu n{i} 0 samples=9 util={30 if i == 700 else 95} idle=0"
        for i in range(1000)
    ]
    text = section(watched("\n".join(lines)), 0.0, Ink(width=100), gpus=False)
    assert "\n  n700  1     30%" in text
    assert "  and 984 more; --json has all\n" in text
    assert len(text.splitlines()) < 50


def test_what_a_node_complains_of_reaches_no_terminal_unfiltered() -> None:
    text = section(watched(TEXT, complaints=("n1: \x1b[2J",)), 0.0, Ink(), gpus=False)
    assert "\x1b" not in text
    assert "n1: " in text


def test_the_same_as_data() -> None:
    found = json.loads(json.dumps(data(watched(TEXT))))
    assert [node["name"] for node in found["nodes"]] == ["n1", "n2"]
    first = found["nodes"][0]["gpus"][0]
    assert (first["number"], first["util"], first["now"]["clock"]) == (0, 97.5, 1800)
    assert found["overall"]["throttled"] == 0.12
    assert found["remarks"][0]["kind"] == "throttled"
