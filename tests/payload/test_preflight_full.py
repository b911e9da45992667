"""preflight_full.sh with a start of the tests' own: what it makes of what the ranks leave."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.waiting import HANG

PAYLOAD = Path(__file__).resolve().parents[2] / "jobgen" / "payload"
SIZE = 268435456


def pair(a: str, b: str, rate: float) -> dict[str, object]:
    """The row of two ranks that reach so many GB/s of bus bandwidth."""
    return {"kind": "pair", "a": a, "b": b, "ranks": 2, "bytes": SIZE, "median": SIZE / rate / 1e9}


def world(rate: float, *pairs: dict[str, object]) -> list[dict[str, object]]:
    """The rows of four ranks that reach so many GB/s of bus bandwidth."""
    point = {"op": "all_reduce", "bytes": SIZE, "median": SIZE * 1.5 / rate / 1e9}
    return [{"kind": "world", "ranks": 4}, {"kind": "point", **point}, *pairs]


SLOW_N3 = (pair("n1", "n2", 40), pair("n3", "n4", 9), pair("n2", "n3", 8), pair("n1", "n4", 41))
ALIKE = (pair("n1", "n2", 9), pair("n3", "n4", 9), pair("n2", "n3", 8), pair("n1", "n4", 8.5))

RECORD = (
    'mkdir -p "$JOBGEN_STATE_DIR/events"; echo "v=1 time=7 kind=exit node=n2 rank=- code=1 '
    'signal=0 why=%s" >"$JOBGEN_STATE_DIR/events/0.n2.node0"'
)
"""As node.sh records why it failed."""


def found(
    folder: Path,
    rows: Sequence[Mapping[str, object]] = (),
    *,
    wanted: str = "40",
    versions: Mapping[str, str] | None = None,
    then: str = "true",
    before: str = "",
    answers: str = "",
    seconds: float = HANG,
) -> list[list[str]]:
    """What it adds to the findings: level, node or all-reduce, what, fix."""
    run, bundle = folder / "run", folder / "bundle"
    (run / "preflight.0").mkdir(parents=True)
    bundle.mkdir()
    for name in ("preflight_program.sh", "rank.sh"):
        (bundle / name).symlink_to(PAYLOAD / name)
    (run / "preflight.0" / "findings").write_text(before)
    (run / "preflight.0" / "answers").write_text(answers)
    (folder / "rows").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [f'cp {folder}/rows "$JOBGEN_STATE_DIR/bench.jsonl"']
    lines += [
        f"printf 'torch\\t{version}\\n' >\"$JOBGEN_STATE_DIR/versions.{node}\""
        for node, version in (versions or {}).items()
    ]
    lines += [f'cp "$JOBGEN_STATE_DIR/below" {folder}/below', then]
    start = folder / "start"
    start.write_text("\n".join(lines))
    env = {"PATH": os.environ["PATH"], "JOBGEN_BUNDLE_DIR": str(bundle), "RDZV_ID": "7_0"}
    env |= {"JOBGEN_STATE_DIR": str(run), "JOBGEN_RESTART": "0", "MASTER_PORT": "20007"}
    env |= {"PREFLIGHT_FULL_SECONDS": str(seconds)}
    words = ["bash", str(PAYLOAD / "preflight_full.sh"), *([f"busbw={wanted}"] if wanted else [])]
    done = subprocess.run([*words, "--", "bash", str(start)], env=env, capture_output=True)
    assert done.returncode == 0, done.stderr
    text = (run / "preflight.0" / "findings").read_text().removeprefix(before)
    return [line.split("\t") for line in text.splitlines()]


def test_a_network_as_fast_as_expected_is_not_spoken_of(tmp_path: Path) -> None:
    assert found(tmp_path, world(41)) == []
    assert (tmp_path / "below").read_text() == "40\n", "the ranks are told when to look closer"


def test_without_an_expectation_nothing_is_judged(tmp_path: Path) -> None:
    assert found(tmp_path, world(0.01), wanted="") == []
    assert (tmp_path / "below").read_text() == "0\n"


def test_somewhat_slow_is_a_warning_and_names_the_node(tmp_path: Path) -> None:
    node, whole = found(tmp_path, world(30, *SLOW_N3))
    assert node[:2] == ["warn", "n3"]
    assert "9.00 GB/s" in node[2]
    assert "usually 40.00" in node[2]
    assert whole[:2] == ["warn", "all-reduce"]
    assert "30.00 GB/s, expected 40" in whole[2]


def test_less_than_half_because_of_one_node_makes_the_node_bad(tmp_path: Path) -> None:
    assert [row[:2] for row in found(tmp_path, world(9, *SLOW_N3))] == [
        ["bad", "n3"],
        ["warn", "all-reduce"],
    ]


def test_less_than_half_with_no_node_to_blame_ends_the_job(tmp_path: Path) -> None:
    (row,) = found(tmp_path, world(9, *ALIKE))
    assert row[:2] == ["wrong", "all-reduce"]
    assert "all nodes are equally slow" in row[3]


def test_of_very_many_ranks_a_small_array_ends_no_job(tmp_path: Path) -> None:
    rows = [{"kind": "world", "ranks": 1024}, *world(9)[1:]]
    (row,) = found(tmp_path, rows)
    assert row[:2] == ["warn", "all-reduce"]


@pytest.mark.parametrize("rows", [[], [{"kind": "world", "ranks": 1}, *world(9)[1:]]])
def test_what_was_not_measured_is_not_judged(
    tmp_path: Path, rows: Sequence[Mapping[str, object]]
) -> None:
    (row,) = found(tmp_path, rows)
    assert row[0] == "skip"
    assert "no measurement" in row[2]


def test_two_nodes_cannot_be_told_apart(tmp_path: Path) -> None:
    (row,) = found(tmp_path, world(9, pair("n1", "n2", 9)))
    assert row[:2] == ["wrong", "all-reduce"]


def test_another_version_than_on_most_nodes_is_bad(tmp_path: Path) -> None:
    versions = {"n1": "2.13.0", "n2": "2.12.1", "n3": "2.13.0"}
    (row,) = found(tmp_path, world(41), versions=versions)
    assert row[:3] == ["bad", "n2", "torch is 2.12.1, but 2.13.0 on the other nodes"]


@pytest.mark.parametrize(
    ("then", "level", "said"),
    [
        ("echo 'ModuleNotFoundError: No module named torch'; exit 1", "skip", "no python with"),
        ("exit 127", "skip", "no python with"),
        (
            "echo 'srun: error: n2: task 1: Exited with exit code 127'; exit 143",
            "skip",
            "no python with",
        ),
        (
            "echo 'program.sh: line 18: exec: python: not found' >&2; exit 143",
            "skip",
            "no python with",
        ),
        (
            "echo 'torchrun is not on PATH: …'; echo 'srun: error: n1: Terminated'; exit 143",
            "skip",
            "no python with",
        ),
        (
            "echo 'RuntimeError: no route'; echo 'srun: error: n1: Terminated'; exit 143",
            "wrong",
            "no route",
        ),
        ("echo 'RuntimeError: ncclUnhandledError'; exit 3", "wrong", "exit code 3: RuntimeError"),
        (
            f"{RECORD % 'setup%20failed:%20load%2520cuda'}; echo 'some error' >&2; exit 1",
            "wrong",
            "exit code 1: n2: setup failed: load%20cuda",
        ),
        (f"{RECORD % 'torchrun%20is%20not%20on%20PATH'}; exit 143", "skip", "no python with"),
    ],
)
def test_a_start_that_fails(tmp_path: Path, then: str, level: str, said: str) -> None:
    (row,) = found(tmp_path, then=then)
    assert row[0] == level
    assert said in row[2]


def test_a_start_that_hangs_is_ended(tmp_path: Path) -> None:
    (row,) = found(tmp_path, then="sleep 600", seconds=1)
    assert row[0] == "wrong"
    assert "not finished after 1 s" in row[2]


def test_nothing_is_started_where_a_node_is_known_to_be_bad(tmp_path: Path) -> None:
    assert found(tmp_path, world(1), before="bad\tn1\tno GPU\tlook\n") == []
    assert not (tmp_path / "below").exists()


def test_what_differs_between_nodes_is_a_warning_at_the_odd_one_out(tmp_path: Path) -> None:
    drivers = {"n1": "a", "n2": "b", "n3": "a"}
    lines = [f"7\t{host}\tfact\tNVIDIA driver\t{value}\n" for host, value in drivers.items()]
    (row,) = found(tmp_path, world(41), answers="".join(lines))
    assert row[:3] == ["warn", "n2", "NVIDIA driver is b, but a on most nodes"]


@pytest.mark.parametrize(
    ("listens", "refused", "bad"), [(100, 104, ["n3"]), (100, 101, []), (None, 104, [])]
)
def test_a_refusal_counts_where_the_rendezvous_host_has_listened_for_seconds(
    tmp_path: Path, listens: int | None, refused: int, bad: list[str]
) -> None:
    answers = f"{listens}\tn1\tlistens\tpython3\t\n" if listens else ""
    answers += f"{refused}\tn3\trefused\tn1:20007\t\n"
    rows = found(tmp_path, world(41), answers=answers)
    assert [row[1] for row in rows if row[0] == "bad"] == bad


def test_who_was_refused_before_the_host_listened_was_early(tmp_path: Path) -> None:
    answers = "90\tn2\trefused\tn1:20007\t\n100\tn1\tlistens\tpython3\t\n"
    assert found(tmp_path, world(41), answers=answers) == []
