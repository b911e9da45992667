"""What ``run:`` means."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobgen.resolve import program
from jobgen.resolve.program import read

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
    "train.py --x 1 # as in the paper": "exec python -u train.py --x 1",
    "# as in the paper\ntrain.py --x 1\n": "exec python -u train.py --x 1",
    "train.py --at $(date)": "exec python -u train.py --at $(date)",
    "$PYTHON train.py": "exec $PYTHON -u train.py",
    '"$VENV/bin/python" train.py': 'exec "$VENV/bin/python" -u train.py',
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


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (
            "prepare.py --fast\n\nFOO=1 train.py \\\n  --x 1\n",
            "python prepare.py --fast\n\nFOO=1 python train.py \\\n  --x 1",
        ),
        ("cd src && train.py --x 1", "cd src && python train.py --x 1"),
        ("if true; then\n  -m pkg.train\nfi", "if true; then\n  python -m pkg.train\nfi"),
        ("cat > a.py <<EOF\nx.py\nEOF\na.py", "cat > a.py <<EOF\nx.py\nEOF\npython a.py"),
        ("X=(a.py b.py)\nls a.py; echo 'c.py'", "X=(a.py b.py)\nls a.py; echo 'c.py'"),
    ],
)
def test_each_python_file_of_a_block_gets_its_interpreter(run: str, text: str) -> None:
    assert read(run).text == program._SEVERAL + text


def test_a_here_document_may_hold_half_a_quote() -> None:
    run = "cat <<'EOF'\nit's\nEOF\n"
    done = subprocess.run(["bash", "-c", read(run).text], capture_output=True, text=True)
    assert done.stdout == "it's\n"


@settings(max_examples=60)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"))))
def test_arguments_reach_the_program_as_a_shell_would_read_them(args: list[str]) -> None:
    """Whatever the words are, the text that jobgen writes means the same to bash."""
    run = "train.py " + " ".join(map(shlex.quote, args))
    text = read(run).text
    text = text.replace("exec python -u train.py", "printf '%s\\0'", 1)
    text = text.replace("python train.py", "printf '%s\\0'", 1)
    done = subprocess.run(["bash", "-c", text], capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == (args or [""])
