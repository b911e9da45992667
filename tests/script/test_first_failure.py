"""The job's exit code is that of the rank that failed first, whatever the launcher makes of it."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobgen.diagnose import find_cause, read_record
from jobgen.model.cause import CauseKind
from jobgen.model.events import Event, read_events
from jobgen.render import render
from tests.golden.cases import templates
from tests.resolve.made import CPUS, job, plan
from tests.script.job import SRUN, Job
from tests.waiting import HANG

BOTH_UP = """
touch "$JOBGEN_RUN_DIR/up.$RANK"
until [[ -e $JOBGEN_RUN_DIR/up.0 && -e $JOBGEN_RUN_DIR/up.1 ]]; do sleep 0.05; done
"""
TORCHRUN = """#!/bin/bash
# one agent a node of one rank; what fails is started again, once
while [[ $1 != --no-python ]]; do shift; done
export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=0 TORCHELASTIC_MAX_RESTARTS=1
for TORCHELASTIC_RESTART_COUNT in 0 1; do
    export TORCHELASTIC_RESTART_COUNT
    "${@:2}" && exit
done
exit 1
"""
T0 = 1_795_300_000.0


def failures(events: Sequence[Event]) -> list[tuple[int | None, str, int | None]]:
    """Rank, node and exit code of what the batch shell recorded, the first first."""
    named = [event for event in events if event.kind == "failed"]
    return [(event.rank, event.node, event.read_number("code")) for event in named]


@pytest.mark.parametrize(("code", "rank"), [(1, 1), (7, 0), (177, 1)])
def test_the_jobs_exit_code_is_the_first_failing_ranks(
    tmp_path: Path, code: int, rank: int
) -> None:
    """srun gives the largest, which may be that of a rank that Slurm ended because of it."""
    program = f"{BOTH_UP}[[ $RANK == {rank} ]] && exit {code}\nexec sleep 1000\n"
    job = Job.make(tmp_path / "run", program)
    done = job.run()
    assert done.returncode == code, done.stderr
    assert job.marker()["rc"] == str(code)
    assert failures(job.events()) == [(rank, f"n{rank + 1}", code)]
    assert f"rank {rank} on n{rank + 1} exited first, with exit code {code}" in done.stderr
    ends = {event.rank: event.read_number("code") for event in job.events() if event.kind == "exit"}
    assert ends == {rank: code, 1 - rank: 143}


def test_a_rank_that_could_not_start_is_the_first_failure(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", "true\n", secrets="[TOP]")
    done = job.run()
    assert done.returncode == 97
    assert failures(job.events())[0][2] == 97


def test_a_job_of_which_no_rank_failed_keeps_its_launchers_code(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", "true\n", launcher="torchrun", nodes="1")
    job.hosts = ("n1",)
    (job.folder / "fake" / "torchrun").write_text("#!/bin/bash\nexit 3\n")
    (job.folder / "fake" / "torchrun").chmod(0o755)
    assert job.run().returncode == 3
    assert not job.state("events").exists()


@pytest.mark.parametrize(("line", "code"), [("exit 3", 3), ("cat no-such-file", 1)])
def test_a_node_may_fail_before_its_ranks(tmp_path: Path, line: str, code: int) -> None:
    job = Job.make(tmp_path / "run", "true\n", setup=f"[{line}]")
    done = job.run()
    assert done.returncode == code
    words = f"n[12] failed before its ranks started, with exit code {code}"
    assert re.search(words, done.stderr)
    rank, _, recorded = failures(job.events())[0]
    assert (rank, recorded) == (None, code)


@pytest.mark.parametrize("scope", ["every", "node", "outside"])
@pytest.mark.parametrize("command", ["cat no-such\tfile% %20 x=1 step=2 'two\nlines'", "false é"])
def test_a_node_records_why_it_failed(tmp_path: Path, scope: str, command: str) -> None:
    """srun may drop the line that a node wrote last."""
    line = json.dumps(command)
    setup = f"[{line}]" if scope == "every" else f"{{{scope}: [{line}]}}"
    more = {"container": "{image: img, runtime: docker}"} if scope == "outside" else {}
    job = Job.make(tmp_path / "run", "true\n", setup=setup, procs_per_node="2", **more)
    (job.folder / "fake" / "srun").write_text(SRUN.replace('"$@";', '"$@" 2>/dev/null;'))
    done = job.run()
    assert done.returncode == 1
    assert "setup failed" not in done.stderr
    events = [event for event in job.events() if event.kind in ("exit", "failed")]
    first = command.partition("\n")[0].replace("\t", " ")
    assert {event.fields["why"] for event in events if event.kind == "failed"} == {
        f"setup failed: {first}"
    }
    cause = find_cause(read_record(job.events()))
    assert cause is not None
    assert (cause.kind, cause.text) == (CauseKind.SETUP, f"setup failed: {first}")


@pytest.mark.parametrize(
    ("launcher", "why"),
    [
        ("torchrun", "the launcher did not set RANK and WORLD_SIZE"),
        ("mpirun", "this mpirun is not Open MPI's"),
    ],
)
def test_a_rank_without_a_number_records_its_end_as_that_of_its_node(
    tmp_path: Path, launcher: str, why: str
) -> None:
    job = Job.make(tmp_path / "run", "true\n", launcher=launcher)
    job.env["SLURM_JOB_NUM_NODES"] = "2"
    words = 'while [[ $1 != bash ]]; do shift; done\n"$@" & "$@" && wait "$!"\n'
    (job.folder / "fake" / launcher).write_text(f"#!/bin/bash\n{words}")
    (job.folder / "fake" / launcher).chmod(0o755)
    done = job.run()
    assert done.returncode == 97, done.stderr
    rank, node, code = failures(job.events())[0]
    assert (rank, code) == (None, 97)
    cause = find_cause(read_record(job.events()))
    assert cause is not None
    assert (cause.kind, cause.text, cause.node) == (CauseKind.SETUP, why, node)


def test_what_torchrun_made_good_by_a_restart_is_no_failure(tmp_path: Path) -> None:
    job = restarting(tmp_path, "[[ $RANK.$TORCHELASTIC_RESTART_COUNT != 1.0 ]] || exit 7\n")
    assert job.run().returncode == 0
    assert [event.kind for event in job.events() if event.rank == 1] == ["start", "exit"] * 2
    assert failures(job.events()) == []


def test_after_a_restart_only_later_failures_count(tmp_path: Path) -> None:
    program = "[[ $RANK == 0 ]] || exit $((7 + TORCHELASTIC_RESTART_COUNT))\n"
    job = restarting(tmp_path, program)
    assert job.run().returncode == 8
    assert failures(job.events()) == [(1, "n2", 8)]


def restarting(folder: Path, program: str) -> Job:
    launcher = "{type: torchrun, max_restarts: 1}"
    job = Job.make(folder / "run", program, launcher=launcher)
    (job.folder / "fake" / "torchrun").write_text(TORCHRUN)
    (job.folder / "fake" / "torchrun").chmod(0o755)
    return job


# which of many


class Happened(NamedTuple):
    """What one rank recorded: a start, or an end with this exit code."""

    at: float
    node: str
    rank: int
    code: int | None

    @property
    def line(self) -> str:
        more = "kind=start" if self.code is None else "kind=exit"
        rest = (
            f"local={self.rank % 2} world=8"
            if self.code is None
            else f"code={self.code} signal={max(0, self.code - 128)}"
        )
        return f"v=1 time={T0 + self.at:.6f} {more} node={self.node} rank={self.rank} {rest}\n"


def start(at: float, node: str, rank: int) -> Happened:
    return Happened(at, node, rank, None)


def end(at: float, node: str, rank: int, code: int) -> Happened:
    return Happened(at, node, rank, code)


@cache
def find_first() -> str:
    """The function of job.sbatch, as it is rendered."""
    bundle = render(plan(job(launcher="srun"), CPUS), templates())
    text = next(file.content.decode() for file in bundle.files if file.path == "job.sbatch")
    found = re.search(r"^first_failure\(\) \{$.*?^\}$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


def named(record: Sequence[Happened]) -> list[tuple[str, int, int]]:
    """Node, rank and exit code of the failures that job.sbatch names."""
    with TemporaryDirectory() as folder:
        for each in record:
            with Path(folder, f"0.{each.node}.{each.rank}").open("a") as file:
                file.write(each.line)
        # a start after a requeue, a node whose name ends in a digit, and the job's own file
        Path(folder, "10.n1.0").write_text(end(-9, "n1", 0, 9).line)
        names = f"events={folder}/0 record={folder}/0.n9.job"
        script = f"{names}\n{find_first()}\nfirst_failure"
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=HANG)
        assert not done.stderr
        path = Path(folder, "0.n9.job")
        events = read_events(path.read_text() if path.exists() else "")
        assert done.stdout.split("\n")[0] == (path.read_text().split("\n")[0] if events else "")
    assert {event.kind for event in events} <= {"failed"}
    return [(event.node, event.rank or 0, event.read_number("code") or 0) for event in events]


def expected(record: Sequence[Happened]) -> list[tuple[str, int, int]]:
    """The same in Python: what failed since the last restart, the first of each node, and of those
    within a second of the very first all that nobody had told to end."""
    ordered = sorted(record)
    slots: dict[tuple[str, int], int] = {}
    since = 0
    for index, each in enumerate(ordered):
        slot = (each.node, each.rank % 2)
        if each.code is None:
            if slot in slots:
                since = index
            slots[slot] = index
    failed = [each for each in ordered[since:] if each.code and each.code != 143]
    firsts = {each.node: each for each in reversed(failed)}
    near = sorted(each for each in firsts.values() if each.at <= failed[0].at + 1)
    return [(each.node, each.rank, each.code or 0) for each in near]


moments = st.integers(0, 4000).map(lambda ms: ms / 1000)
records = st.lists(
    st.builds(
        Happened,
        moments,
        st.sampled_from(["n1", "n2", "gpu-3.cluster.7"]),
        st.integers(0, 7),
        st.sampled_from([None, 0, 1, 7, 137, 143]),
    ),
    max_size=16,
    unique_by=lambda happened: happened.at,
)


@settings(max_examples=60)
@given(records)
@example([end(3, "n1", 0, 143), end(2.9, "n2", 1, 143)])
@example([start(0, "n1", 0), end(1, "n1", 0, 7), start(2, "n1", 2), end(3, "n1", 2, 0)])
def test_the_script_names_what_happened_first(record: list[Happened]) -> None:
    assert named(record) == expected(record)


@pytest.mark.parametrize(
    ("record", "first"),
    [
        pytest.param(
            [end(5.0, "n1", 0, 1), end(5.2, "n1", 1, 7)],
            [("n1", 0, 1)],
            id="of one node the first",
        ),
        pytest.param(
            [end(4.7, "n2", 2, 143), end(5.0, "n1", 0, 1)],
            [("n1", 0, 1)],
            id="a clock that is late makes no cause of a consequence",
        ),
        pytest.param(
            [end(5.0, "n1", 0, 137), end(5.3, "n2", 2, 1), end(5.4, "n2", 3, 1)],
            [("n1", 0, 137), ("n2", 2, 1)],
            id="killed for its memory, and another in the same second: both",
        ),
        pytest.param(
            [end(5.0, "n1", 0, 1), end(6.5, "n2", 2, 1)],
            [("n1", 0, 1)],
            id="a second later is later",
        ),
        pytest.param(
            [end(5.0, "n1", 0, 143), end(5.1, "n2", 2, 143)],
            [],
            id="nobody but who was told to end",
        ),
        pytest.param(
            [start(0, "n1", 0), start(0.1, "n2", 2), end(5.0, "n1", 0, 143)],
            [],
            id="a rank that left no end, as it was killed with its rank.sh",
        ),
    ],
)
def test_first_is_decided_within_what_clocks_can_tell(
    record: list[Happened], first: list[tuple[str, int, int]]
) -> None:
    assert named(record) == first
