"""What ``run:`` means."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobgen.resolve import program
from jobgen.resolve.program import UnreadableError, read

PYTHON = {
    "train.py --lr 1e-4": "exec python -u train.py --lr 1e-4",
    "python train.py --lr 1e-4": "exec python -u train.py --lr 1e-4",
    "./sub/train.py": "exec python -u ./sub/train.py",
    "-m pkg.mod x": "exec python -u -m pkg.mod x",
    "python -m pkg.mod x": "exec python -u -m pkg.mod x",
    "python3.12 -u train.py": "exec python3.12 -u train.py",
    "python -O train.py": "exec python -u -O train.py",
    "A=1 B='x y' train.py": "A=1 B='x y' exec python -u train.py",
    "train.py \\\n  --x 1": "exec python -u train.py \\\n  --x 1",
    "train.py --re 'a|b;c' > \"$OUT\"": None,
    'train.py --at "$(date)" # it\'s late': None,
}


@pytest.mark.parametrize("run", PYTHON)
def test_a_python_program_goes_through_the_launcher(run: str) -> None:
    found = read(run)
    assert found.python
    if PYTHON[run]:
        assert found.text == PYTHON[run]


@pytest.mark.parametrize(
    "run", ["bash x.sh", "nvidia-smi", "cd x && train.py", "torchrun train.py", "./train", "time x"]
)
def test_any_other_command_does_not(run: str) -> None:
    assert not read(run).python


def test_one_command_becomes_the_process_of_the_rank() -> None:
    assert read("bash x.sh 'a b'").text == "exec bash x.sh 'a b'"
    assert "exec" not in read("bash x.sh | tee log").text
    assert "exec" not in read("export A=1").text


def test_of_several_commands_the_first_failure_counts(tmp_path: Path) -> None:
    text = read("false | cat\ntrue").text
    assert subprocess.run(["bash", "-c", text], cwd=tmp_path).returncode == 1


def test_each_python_file_of_a_block_gets_its_interpreter() -> None:
    text = read("prepare.py --fast\n\nFOO=1 train.py \\\n  --x 1\n").text
    assert text.endswith("python prepare.py --fast\nFOO=1 python train.py \\\n  --x 1")


@pytest.mark.parametrize("run", ["train.py 'x", 'python "a'])
def test_an_open_quote_is_refused(run: str) -> None:
    with pytest.raises(UnreadableError):
        read(run)


def test_a_here_document_may_hold_half_a_quote() -> None:
    run = "cat <<'EOF'\nit's\nEOF\n"
    done = subprocess.run(["bash", "-c", read(run).text], capture_output=True, text=True)
    assert done.stdout == "it's\n"


def test_the_file_is_found_for_the_checks() -> None:
    assert read("python -u a/train.py x.py").script == "a/train.py"
    assert read("A=b train.py").script == "train.py"
    assert read("-m pkg.train").script == ""


@settings(max_examples=60)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"))))
def test_arguments_reach_the_program_as_a_shell_would_read_them(args: list[str]) -> None:
    """Whatever the words are, the text that jobgen writes means the same to bash."""
    run = "train.py " + " ".join(map(shlex.quote, args))
    try:
        text = read(run).text
    except UnreadableError:  # pragma: no cover - shlex.quote closes its quotes
        pytest.fail(run)
    text = text.replace("exec python -u train.py", "printf '%s\\0'", 1)
    text = text.replace("python train.py", "printf '%s\\0'", 1)
    done = subprocess.run(["bash", "-c", text], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == (args or [""])


def test_the_examples_of_the_module_are_true() -> None:
    import doctest

    assert doctest.testmod(program).failed == 0
