"""preflight.sh in the batch shell: what it concludes from the answers of nodes, and silence."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobgen import preflight
from tests.inputs import ONE_FOLDER
from tests.waiting import HANG

HOSTS = ("n1", "n2", "n3")
BEGIN = 1_700_000_000
CLOCK = f"""
unset BASH_ENV SECONDS
SECONDS=0
pass() {{ SECONDS=$((SECONDS + $1)); }}
printf() {{
    if [[ $1 == -v && $3 == '%(%s)T' ]]; then
        builtin printf -v "$2" %s "$(({BEGIN} + SECONDS))"
    else
        builtin printf "$@"
    fi
}}
read() {{
    [[ $2 == -t ]] || {{
        builtin read "$@"
        return
    }}
    while builtin read -r -u "$5" "${{@:6}}"; do
        [[ ${{!6}} == '~clock~' ]] || return 0
        ((${{!7}} < $3)) || {{
            pass "$3"
            return 142
        }}
        pass "${{!7}}"
    done
    return 1
}}
"""
"""A clock for the script under test, read as BASH_ENV. Time passes only where srun prints
``~clock~ SECONDS``, and ``read -t`` times out there if fewer seconds are left."""


@dataclass
class Told:
    """What the batch shell is left with."""

    log: str
    findings: list[tuple[str, str, str]]
    """Level, node, what."""
    arguments: str

    def of(self, *levels: str) -> list[tuple[str, str]]:
        """Node and text of these levels."""
        return [(node, what) for level, node, what in self.findings if level in levels]


def judge(
    folder: Path,
    answers: str,
    *,
    after: str = "",
    scontrol: str = "exit 1",
    words: tuple[str, ...] = (),
    **env: str,
) -> Told:
    """The preflight of three nodes whose srun prints these lines, and then does ``after``."""
    tools, state = folder / "bin", folder / "state"
    tools.mkdir(exist_ok=True)
    (folder / "answers").write_bytes(answers.encode())
    told = {
        "srun": f'echo "$*" >{folder}/arguments; cat {folder}/answers; {after}',
        "scontrol": scontrol,
    }
    for name, body in told.items():
        (tools / name).write_text(f"#!/bin/bash\n{body}\n")
        (tools / name).chmod(0o755)
    (folder / "clock").write_text(CLOCK)
    (folder / "preflight.sh").write_text(preflight.script())
    done = subprocess.run(
        ["bash", str(folder / "preflight.sh"), *HOSTS, "--", "gpus=8", *words],
        env={
            "PATH": f"{tools}:{os.environ['PATH']}",
            "BASH_ENV": str(folder / "clock"),
            "JOBGEN_STATE_DIR": str(state),
            "JOBGEN_RESTART": "0",
            "JOBGEN_BUNDLE_DIR": str(folder),
            "SLURMD_NODENAME": "n1",
            "SLURM_JOB_NODELIST": "n[1-3]",
            "MASTER_ADDR": "n1",
            "MASTER_PORT": "20007",
            **env,
        },
        capture_output=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stderr
    *lines, last = (state / "preflight.0" / "findings").read_bytes().split(b"\n")
    assert last == b""
    rows = [line.decode(errors="replace").split("\t") for line in lines]
    assert all(len(row) == 4 for row in rows), rows
    arguments = folder / "arguments"
    words = arguments.read_text() if arguments.exists() else ""
    found = [(row[0], row[1], row[2]) for row in rows]
    return Told(done.stderr.decode(errors="replace"), found, words)


def passes(seconds: int) -> str:
    """The line of srun at which so much time passes."""
    return f"~clock~\t{seconds}"


def nodes(more: str = "", *, clock: dict[str, float] | None = None, but: str = "") -> str:
    """The lines of three nodes that are well, and these."""
    lines = []
    for host in HOSTS:
        off = (clock or {}).get(host, 0)
        lines += [f"{host}\tclock\t{int(BEGIN + off)}"]
        lines += [f"{host}\tat\tshm"]
    lines += more.splitlines()
    lines += [f"{host}\tend" for host in HOSTS if host != but]
    return "\n".join(lines) + "\n"


def test_nodes_that_are_fit_cost_one_line(tmp_path: Path) -> None:
    told = judge(tmp_path, nodes("n2\treached\nn3\treached"), words=("srun=--gpus-per-node=8 --x",))
    assert told.findings == []
    assert told.log == "jobgen: preflight: 3 of 3 nodes answered in 0 s\n"
    for word in ("--overlap", "--nodes=3", "--ntasks=3", "--gpus-per-node=8", "first=n1", "gpus=8"):
        assert word in told.arguments.split()
    assert "--gpu-bind" not in told.arguments
    answers = (tmp_path / "state" / "preflight.0" / "answers").read_text().splitlines()
    assert [line.split("\t")[1:3] for line in answers[:2]] == [["n1", "clock"], ["n1", "at"]]


def test_a_bad_node_is_named_with_what_to_do(tmp_path: Path) -> None:
    told = judge(tmp_path, nodes("n2\tbad\t7 of 8 GPUs found\thave it drained"))
    assert told.findings == [("bad", "n2", "7 of 8 GPUs found")]
    assert "bad: n2: 7 of 8 GPUs found\njobgen: preflight:   have it drained\n" in told.log


def test_the_same_of_several_nodes_is_said_once(tmp_path: Path) -> None:
    told = judge(tmp_path, nodes("".join(f"{h}\tbad\thot\tcool it\n" for h in HOSTS)))
    assert "jobgen: preflight: bad: n1 n2 n3: hot\n" in told.log
    assert told.log.count("hot") == 1


def test_what_is_odd_is_bad_where_others_are_better_and_else_the_profile_is(tmp_path: Path) -> None:
    told = judge(tmp_path, nodes("n3\todd\t7 of 8 network cards are ready\tlook"))
    assert told.findings == [("bad", "n3", "7 of 8 network cards are ready")]
    told = judge(tmp_path, nodes("".join(f"{h}\todd\t4 of 8 cards\tlook\n" for h in HOSTS)))
    assert [level for level, _, _ in told.findings] == ["warn"] * 3


def test_a_node_that_srun_does_not_reach_is_bad(tmp_path: Path) -> None:
    answers = "\n".join(x for x in nodes(but="n3").splitlines() if not x.startswith("n3"))
    said = "srun: error: Task launch failed on node n3: Communication connection failure"
    told = judge(tmp_path, answers + "\n", after=f"echo '{said}' >&2; exit 1")
    ((node, what),) = told.of("bad")
    assert node == "n3"
    assert what == f"no answer in 0 s ({said})"


@pytest.mark.parametrize("after", ["exec sleep 600", "trap '' TERM; exec sleep 600"])
def test_a_node_that_hangs_is_named_with_the_place_in_time(tmp_path: Path, after: str) -> None:
    """Its srun is ended, also where it ignores SIGTERM: the judgement does not wait for it."""
    answers = nodes("n3\tat\tgpus", but="n3") + passes(600) + "\n"
    told = judge(tmp_path, answers, after=after, PREFLIGHT_SECONDS="20")
    assert told.of("bad") == [("n3", "no answer in 20 s, at the check of gpus")]


def test_where_nobody_answers_slurm_is_asked_whom_it_does_not_reach(tmp_path: Path) -> None:
    state = "echo 'NodeName=n2 Arch=x86_64 State=ALLOCATED+NOT_RESPONDING Reason=x'"
    told = judge(tmp_path, "", scontrol=f"{state}; echo 'NodeName=n1 Arch=x State=ALLOCATED Y=z'")
    assert told.of("bad") == [("n2", "no answer in 0 s, nor to Slurm")]


def test_where_nothing_is_known_the_job_goes_on(tmp_path: Path) -> None:
    told = judge(tmp_path, "", after="echo 'srun: error: no' >&2; exit 1")
    assert told.findings == []
    assert told.log == "jobgen: preflight: 0 of 3 nodes answered in 0 s\nsrun: error: no\n"


@pytest.mark.parametrize(
    ("clock", "bad"),
    [
        ({"n2": 3600}, ["n2"]),
        ({"n2": -3600}, ["n2"]),
        ({"n2": 12}, ["n2"]),
        ({"n2": 3}, []),
        ({"n2": -3}, []),
        ({"n1": 90}, ["n1"]),
        # all but the one whose clock they are compared to
        ({"n2": 600, "n3": 601}, ["n1"]),
        ({"n1": 600, "n2": 600, "n3": 600}, ["n1"]),
    ],
)
def test_clocks(tmp_path: Path, clock: dict[str, float], bad: list[str]) -> None:
    told = judge(tmp_path, nodes(clock=clock))
    assert [node for node, what in told.of("bad") if "clock" in what] == bad


@pytest.mark.parametrize(
    ("ways", "bad"),
    [
        ("n2\treached\tn1\nn3\tlost\tn1:20007: no answer in 5 s", ["n3"]),
        ("n2\tlost\tn1:20007: x\nn3\tlost\tn1:20007: x", ["n1"]),
        ("n2\treached\tn1\nn3\treached\tn1", []),
    ],
)
def test_who_cannot_reach_the_head(tmp_path: Path, ways: str, bad: list[str]) -> None:
    assert [node for node, _ in judge(tmp_path, nodes(ways)).of("bad")] == bad


@pytest.mark.parametrize(
    ("begins", "ends", "said"),
    [
        (15, 15, ""),
        (21, 0, "no answer in 20 s"),
        (15, 21, "no answer in 35 s, at the check of shm"),
    ],
)
def test_a_node_on_which_the_step_begins_late_gets_its_time(
    tmp_path: Path, begins: int, ends: int, said: str
) -> None:
    """As where the site's prolog runs there before the first step."""
    lines = nodes().splitlines()
    *late, end = (line for line in lines if line.startswith("n3"))
    lines = [line for line in lines if not line.startswith("n3")]
    lines += [passes(begins), *late, passes(ends), end, ""]
    told = judge(tmp_path, "\n".join(lines), PREFLIGHT_SECONDS="20")
    assert told.of("bad") == ([("n3", said)] if said else [])


TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=40)
LINE = st.builds(
    lambda host, kind, words: "\t".join([host, kind, *words]),
    st.sampled_from([*HOSTS, "n9", "", "-e"]),
    st.sampled_from(["bad", "odd", "fact", "clock", "end", "at", "lost", "reached", "skip"]) | TEXT,
    st.lists(TEXT, max_size=4),
)


@settings(max_examples=12, suppress_health_check=ONE_FOLDER)
@given(st.lists(LINE, max_size=12))
@example(["n1\tbad\ta\x0bb\x85c\u2028d\re\tf"])
def test_no_words_of_a_node_break_the_judgement(tmp_path: Path, lines: list[str]) -> None:
    """Whatever comes, findings are of the job's nodes, with four words a line."""
    told = judge(tmp_path, "\n".join(lines) + "\n", PREFLIGHT_SECONDS="20")
    assert {node for _, node, _ in told.findings} <= set(HOSTS)
    assert {level for level, _, _ in told.findings} <= {"bad", "wrong", "warn", "skip"}
