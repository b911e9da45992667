"""Every file of tests/bad_inputs is refused as its first line asks, and hostile ones quickly."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from jobgen.errors import Invalid
from jobgen.load import check, detect_kind, load_cluster, load_job
from tests.waiting import HANG

FILES = sorted((Path(__file__).parents[1] / "bad_inputs").glob("*.yaml"))
BAD = [f for f in FILES if not f.name.startswith("good-")]


def read(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def said(path: Path) -> str:
    """What a person is told of a file: one line for each place."""
    lines = []
    for problem in check(read(path), path.name).problems:
        if problem.severity == "error":
            lines.append(f"{problem.place}: {problem.message}: {problem.hint}")
            lines += [f"{place}: also" for place in problem.also]
    return "\n".join(lines)


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_a_bad_file_is_refused_as_its_first_line_asks(path: Path) -> None:
    asked = re.match(r"# expect (\S+) (.+?) \|", read(path))
    assert asked, "its first line says: # expect LINES WORDS | what"
    assert not check(read(path), path.name).valid
    for line in asked.group(1).split(","):
        assert line == "-" or re.search(rf"^{path.name}:{line}:", said(path), re.MULTILINE)
    for word in asked.group(2).split(","):
        assert word in said(path)


@pytest.mark.parametrize("path", BAD, ids=lambda p: p.stem)
def test_loading_raises_what_checking_finds(path: Path) -> None:
    load = load_cluster if detect_kind(read(path), path.name) == "cluster" else load_job
    with pytest.raises(Invalid) as caught:
        load(read(path), path.name)
    errors = [p for p in check(read(path), path.name).problems if p.severity == "error"]
    assert set(caught.value.problems) <= set(errors)


def test_the_good_twins_pass() -> None:
    for path in FILES:
        if path.name.startswith("good-"):
            found = check(read(path), path.name)
            assert found.valid
            assert found.problems == ()


def test_no_bad_file_shows_a_secret() -> None:
    for path in BAD:
        if "secret" in path.name:
            for value in re.findall(r"(?:hf_|ghp_|AKIA)\w+|hunter2", read(path)):
                assert value not in said(path)


def many(form: str, times: int = 4900) -> str:
    return "".join(form.format(i=i) for i in range(times))


GOOD = "name: d\nnodes: 1\ntime: 1h\nrun: train.py\n"
HOSTILE = {
    "a mebibyte of brackets": "a: " + "[" * 1_048_000,
    "a mebibyte of braces": "{" * 1_048_000,
    "very many keys": many("k{i}: 1\n", 90_000),
    "thousands of unknown keys": GOOD + many("gpus_per_nod{i}: 1\n"),
    "thousands of unknown variables": GOOD + "env:\n" + many("  K{i}: ${{X{i}}}\n"),
    "thousands of unknown options": GOOD + "slurm:\n" + many("  part{i}: 1\n"),
    "thousands of unknown settings": GOOD + "env:\n" + many("  NCCL_X{i}: 1\n"),
    "a variable that grows": f"vars: {{A: {'b' * 9000}}}\n{GOOD}setup: {'${A} ' * 9000}",
    "billion laughs": "a: &a [x]\n" + many("b{i}: &b{i} [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n", 999),
    "control characters": "\x01" * 1_048_000,
    "bytes of no text": "\udcff\udc80x" * 200_000,
    "tabs": "a:\n" + "\tb: 1\n" * 170_000,
    "a long number": GOOD + "mem: " + "9" * 1_000_000,
    "a long exponent": GOOD + "mem: 1e" + "9" * 1_000_000,
    "blanks": GOOD + 'setup: "' + " " * 1_000_000 + '"',
    "semicolons": "secrets: [A]\n" + GOOD + 'setup: "' + "; " * 60_000 + '"',
}
PROGRAM = r"""
import re, sys, time
sys.path[:0] = sys.argv[2:]
from jobgen.load import check
text = open(sys.argv[1], "rb").read().decode("utf-8", "surrogateescape")
begin = time.process_time()
found = check(text, "job.yaml")
took = time.process_time() - begin
# not ru_maxrss: that of a child begins at its parent's
peak = re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())
print(len(found.problems), took, peak[1])
"""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_costs_little_time_and_memory(name: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(HOSTILE[name].encode("utf-8", "surrogateescape")[: 1 << 20])
    # by a shell: a fork of this process may be larger than the limit before it begins
    limited = ["sh", "-c", 'ulimit -v 204800 && exec "$@"', "sh"]
    words = [*limited, sys.executable, "-c", PROGRAM, str(file), *sys.path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stderr
    problems, took, memory = done.stdout.split()
    assert int(problems) < 500
    # about 0.2 s on a quiet machine, where one second is promised
    assert float(took) < 3
    assert int(memory) < 200 << 10
