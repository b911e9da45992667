"""The reader of shell text: which variables a program will find."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.shell.exports import Export, list_exports
from jobgen.shell.programs import read_started


def read_exports(text: str) -> list[Export]:
    return list(list_exports(read_started(text)))


def found(text: str) -> list[tuple[str, str | None]]:
    """(name, value) of each variable, in order."""
    return [(one.name, one.value) for one in read_exports(text)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("export A=1", [("A", "1")]),
        ("export A=1 B='x y' C", [("A", "1"), ("B", "x y")]),
        ('export A="x $y"', [("A", None)]),
        ("export A=$(cmd 'x)' \")\" )", [("A", None)]),
        ("export A=`hostname`", [("A", None)]),
        ("export A=${A:-WARN}", [("A", "WARN")]),
        ('export A="${A:-1}"', [("A", "1")]),
        ("export A=${A:-$B}", [("A", None)]),
        ("A=1 python train.py", [("A", "1")]),
        ("A=1", []),
        ("A=1\nexport A", [("A", "1")]),
        ("export A\nA=2", [("A", "2")]),
        ("set -a\nA=1", [("A", "1")]),
        ("# export A=1", []),
        ("echo '# no' # export A=1", []),
        ("echo export A=1", []),
        ("echo 'export A=1'", []),
        ("if true; then export A=1; fi", [("A", "1")]),
        ("x && export A=1 || export B=2", [("A", "1"), ("B", "2")]),
        ("cat <<EOF\nexport A=1\nEOF\nexport B=2", [("B", "2")]),
        ("cat <<-'EOF' > f\n\texport A=1\n\tEOF\nexport B=2", [("B", "2")]),
        ("export A=1 >log 2>&1", [("A", "1")]),
        ("export A=a\\ b", [("A", "a b")]),
        ("export \\\n  A=1", [("A", "1")]),
        ("declare -x A=1", [("A", "1")]),
        ("declare A=1", []),
        ("env -i A=1 B=2 cmd C=3", [("A", "1"), ("B", "2")]),
        ("srun --export=ALL,A=1,B=2 cmd", [("A", "1"), ("B", "2")]),
        ("mpirun -np 2 -x A=1 -x PATH cmd", [("A", "1")]),
        ("srun bash -c 'export A=1; run'", [("A", "1")]),
        ("export A+=x", [("A", None)]),
        ("export A=", [("A", "")]),
        ("export \"A=1 2\" 'B=3'", [("A", "1 2"), ("B", "3")]),
        ("export -n A=1", []),
        ("((x<<2))\nexport A=1", [("A", "1")]),
        ("(( x = (1 << 2) )) && export A=1", [("A", "1")]),
        ("for ((i=0; i<1<<2; i++)); do export A=1; done", [("A", "1")]),
        ("((export A=1); (export B=2))", [("A", "1"), ("B", "2")]),
        ("readonly A=1\ndeclare B=2 C=3\nexport A B", [("A", "1"), ("B", "2")]),
        ('export A="${A:=1}"', [("A", "1")]),
        ("ssh node1 'cd /x; export A=1'", [("A", "1")]),
        ("enroot start -e A=1 image", [("A", "1")]),
        ("set -a\nA=1\nset +a\nB=2", [("A", "1")]),
        ("set -ea\nA=1\nset +o allexport\nB=2", [("A", "1")]),
        ("function f { export A=1; }", [("A", "1")]),
        ("function f() {\n  export A=1\n}", [("A", "1")]),
        ("setenv A 1\nsetenv B $x\nsetenv C", [("A", "1"), ("B", None), ("C", "")]),
        ('env "A=x y" cmd', [("A", "x y")]),
        ("nohup env A=1 cmd &", [("A", "1")]),
        ("srun -n 4 /usr/bin/env -u X A=1 cmd B=2", [("A", "1")]),
        ("exec env -i A=1 cmd", [("A", "1")]),
        ("echo env A=1", []),
        ("srun --export=A=1 cmd", [("A", "1")]),
        ("srun --export ALL,A=1,B=$x cmd", [("A", "1"), ("B", None)]),
        ("mpiexec -genv A 1 -env B=2 cmd -x C=3", [("A", "1"), ("B", "2"), ("C", "3")]),
        (
            "docker run -e A=1 --env B=x,y --env=C=3 -e D image",
            [("A", "1"), ("B", "x,y"), ("C", "3")],
        ),
        ("srun apptainer exec --env A=x,y,B=2 image.sif cmd", [("A", "x,y"), ("B", "2")]),
        ("export APPTAINERENV_A=1 SINGULARITYENV_B=2", [("A", "1"), ("B", "2")]),
    ],
)
def test_what_is_handed_to_programs_is_found(
    text: str, names: list[tuple[str, str | None]]
) -> None:
    assert found(text) == names


def test_each_stands_where_it_was_written() -> None:
    text = "x=1\nexport NCCL_A=1  # c\n  NCCL_B=2 srun bash -c 'export NCCL_C=3'\n"
    for one in read_exports(text):
        assert text[one.start : one.end] == one.name


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@given(st.lists(st.text("ab '\"\\#;\n=${}()`&|<>-_1", max_size=12), min_size=1, max_size=4))
def test_what_is_read_as_a_value_is_what_bash_makes_of_it(pieces: list[str]) -> None:
    """A value that is said to be known is exactly what the program finds."""
    text = "export AA=" + " ".join(pieces)
    known = [one for one in read_exports(text) if one.name == "AA" and one.value is not None]
    if not known or len(found(text)) != 1 or set(text) & set("()&|<>;`\n#{$") or "\\" in text:
        return
    script = f'{text}\nprintf %s "$AA"'
    run = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env={"PATH": os.environ["PATH"]}
    )
    if run.returncode == 0 and not run.stderr:
        assert run.stdout == known[-1].value


@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    for one in read_exports(text):
        assert 0 <= one.start <= one.end


@given(
    st.lists(
        st.sampled_from(
            [
                "export ",
                "A=1",
                "'",
                '"',
                "$(",
                ")",
                "<<E\n",
                "\n",
                "bash -c ",
                "`",
                "\\",
                "${",
                "}",
                " ",
                ";",
            ]
        ),
        max_size=60,
    )
)
def test_any_pieces_of_shell_are_read(pieces: list[str]) -> None:
    list(read_exports("".join(pieces)))


@pytest.mark.timeout(300)  # a reader that looks at each character anew takes hours
@pytest.mark.parametrize("piece", ["(", "((", "env ", "for ((", "$((", "A=", "-e A=1,", "setenv "])
def test_long_texts_are_read_in_time(piece: str) -> None:
    list(read_exports("docker run " + piece * (200_000 // len(piece))))
