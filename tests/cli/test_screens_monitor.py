"""What show says of a watched job, on a screen and as data."""

from __future__ import annotations

import json
from pathlib import Path

from jobgen.app.monitor_reports import Watched
from jobgen.cli.output import Ink
from jobgen.cli.screens.monitor import data, draw_section
from jobgen.monitor.findings import list_remarks, summarize_job
from jobgen.monitor.summary import summarize_nodes

HERE = Path(__file__).parent / "monitor"
TEXT = (HERE / "summary.txt").read_text()
"""What two nodes of two GPUs each told."""


def watched(text: str, **known: object) -> Watched:
    found = summarize_nodes([text])
    total = summarize_job(found) if found else None
    return Watched(30, found, total, list_remarks(found))._replace(**known)  # type: ignore[arg-type]


def test_a_row_a_node_and_what_to_look_at() -> None:
    text = draw_section(watched(TEXT), 12003.0, Ink(width=100), gpus=False)
    assert text == (HERE / "screen.txt").read_text()


def test_every_gpu_as_it_was_last_seen() -> None:
    text = draw_section(watched(TEXT), 12003.0, Ink(width=100), gpus=True)
    assert (HERE / "now.txt").read_text() in text


def test_a_node_that_told_nothing_has_a_row_of_dashes() -> None:
    text = draw_section(watched("node n1 samples=1 first=5 last=5\n"), 5.0, Ink(), gpus=True)
    assert text.endswith("  n1    -     -    -            -           -\n")
    assert "GPU" not in text


def test_nothing_was_written_yet() -> None:
    text = draw_section(watched("", unread="no sample was written"), 0.0, Ink(), gpus=True)
    assert text == "Monitor  every 30s: no sample was written\n"


def test_of_many_nodes_those_with_a_remark_are_shown() -> None:
    lines = [
        f"node n{i} samples=9 first=1 last=9\n"
        f"gpu n{i} 0 samples=9 util={30 if i == 700 else 95} idle=0"
        for i in range(1000)
    ]
    text = draw_section(watched("\n".join(lines)), 0.0, Ink(width=100), gpus=False)
    assert "\n  n700  1     30%" in text
    assert "  and 984 more; --json has all\n" in text
    assert len(text.splitlines()) < 50


def test_what_a_node_complains_of_reaches_no_terminal_unfiltered() -> None:
    text = draw_section(watched(TEXT, complaints=("n1: \x1b[2J",)), 0.0, Ink(), gpus=False)
    assert "\x1b" not in text
    assert "n1: " in text


def test_the_same_as_data() -> None:
    found = json.loads(json.dumps(data(watched(TEXT))))
    assert [node["name"] for node in found["nodes"]] == ["n1", "n2"]
    first = found["nodes"][0]["gpus"][0]
    assert (first["number"], first["util"], first["now"]["clock"]) == (0, 97.5, 1800)
    assert found["overall"]["throttled"] == 0.12
    assert found["remarks"][0]["kind"] == "throttled"
