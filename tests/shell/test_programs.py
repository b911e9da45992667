"""What a shell text starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.shell.programs import read_programs


@pytest.mark.parametrize(
    ("text", "scripts"),
    [
        ("python train.py --lr 1", ["train.py"]),
        ("python3.11 -u -W ignore -X dev train.py -m x", ["train.py"]),
        ("python -uWignore train.py", ["train.py"]),
        ("python -c 'import x' train.py", []),
        ("python - < train.py", []),
        ("python --version", []),
        ("cd src && ./train.py", ["./train.py"]),
        ("uv run --with deepspeed train.py", ["train.py"]),
        ("bash -c 'python train.py'", ["train.py"]),
        ("time -p env A=1 numactl -N 0 python train.py", ["train.py"]),
        ("CMD='python train.py'\n$CMD --lr 1", ["train.py"]),
        ('CMD=(python train.py)\n"${CMD[@]}"', ["train.py"]),
        ("SCRIPTS=(\n  train.py\n  eval.py\n)", []),
        ("for s in train.py eval.py; do echo $s; done", []),
        ("bash train.sh", []),
        ("echo train.py; ls train.py", []),
        ("cat > x.py <<EOF\npython y.py\nEOF\npython x.py", ["x.py"]),
        ("coverage run -m pytest; coverage run train.py", ["train.py"]),
        ("python -m cProfile -o out train.py", ["train.py"]),
    ],
)
def test_python_programs_are_seen_through_what_starts_them(text: str, scripts: list[str]) -> None:
    assert [program.script for program in read_programs(text) if program.script] == scripts


def test_a_module_is_a_program() -> None:
    names = [(p.name, p.module) for p in read_programs("python -m pkg.a\npython -mpkg.b x")]
    assert names == [("pkg.a", "pkg.a"), ("pkg.b", "pkg.b")]


def test_each_stands_where_it_was_written() -> None:
    text = "set -e\nA=1 python a.py\nbash -c 'python b.py'\nexec torchrun c.py\nC='python d.py'\n$C"
    pointed = [text[p.start : p.end] for p in read_programs(text)]
    assert pointed == ["a.py", "b.py", "torchrun", "$C"]


def test_changes_of_the_rendezvous_are_known() -> None:
    text = "A=1 python x.py\nenv -u RANK python x.py\nMASTER_PORT=1 env A=1 python x.py"
    assert [(p.own_rendezvous, p.rendezvous) for p in read_programs(text)] == [
        (False, 0),
        (True, 0),
        (True, 0),
    ]
    text = "python x.py\nexport A=1\npython x.py\nexport MASTER_PORT=1\npython x.py\nRANK=1\nx.py"
    assert [p.rendezvous for p in read_programs(text)] == [0, 0, 1, 2]


PIECES = (
    "env |srun |bash -c |eval |uv run |torchrun $A |( |if a; then |x=(|$(|f() |case x in |[[ "
    "|for x in a b; do |R=$RANK;"
)


@pytest.mark.parametrize("piece", [*PIECES.split("|"), 'A="$A $A"\n'])
def test_a_hostile_text_is_read_to_its_end(piece: str) -> None:
    """At the limit of one value; a quadratic reader would take minutes."""
    text = piece * (131_000 // len(piece))
    assert all(0 <= p.start <= p.end <= len(text) for p in read_programs(text))


@given(st.lists(st.sampled_from([*"ab $'\"\\(){};&|\n=", "bash -c ", "srun ", "python ", "x.py "])))
def test_any_text_is_read(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert all(0 <= p.start <= p.end <= len(text) for p in read_programs(text))
