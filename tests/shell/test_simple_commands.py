"""When each command of a shell text runs."""

from __future__ import annotations

import subprocess
from collections import Counter
from itertools import count

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from jobgen.shell.simple_commands import read_script

KINDS = ("always", "some_ranks", "repeated", "background", "piped")

TEXTS = {
    "echo a && b || c; d": ["echo a: always", "b: always", "c", "d: always"],
    "[ -f x ] && a; b": ["[ -f x ]: always", "a", "b: always"],
    "a && b": ["a: always", "b"],
    "if [ $RANK = 0 ]; then a; else b; fi; c": [
        "[ $RANK = 0 ]: always",
        "a: some_ranks",
        "b: some_ranks",
        "c: always",
    ],
    "if python a.py; then b; else c; fi": ["python a.py: always", "b: always", "c"],
    "if a; then b; elif [ $LOCAL_RANK = 1 ]; then c; fi": [
        "a: always",
        "b",
        "[ $LOCAL_RANK = 1 ]",
        "c: some_ranks",
    ],
    "for i in 1 2; do a; done; b": ["a: always repeated", "b: always"],
    "for i in 1; do a; done": ["a: always"],
    "for i in $(seq 3)\ndo\n  a\ndone": ["a: always repeated"],
    "for ((i = 0; i < 3; i++)); do a; done": ["a: always repeated"],
    "for i in 1 2; do a && break; done": ["a: always", "break"],
    "until a; do b; done": ["a: always", "b"],
    "while read x; do a; done < f": ["read x: always", "a"],
    "case $M in a) b ;; c|d) e;; esac; f": ["b", "e", "f: always"],
    "case $SLURM_NODEID in\n0)\n  a\n  ;;\nesac": ["a: some_ranks"],
    "f() { a; }\nf": ["a", "f: always"],
    "function f { a; b; }; f": ["a", "b", "f: always"],
    "main() { [ $RANK = 0 ]; }\nif main; then a; fi": [
        "[ $RANK = 0 ]",
        "main: always",
        "a: some_ranks",
    ],
    "M=$((RANK == 0))\n((M)) && a; b": [
        "M=$((RANK == 0)): always",
        "((M)): always",
        "a: some_ranks",
        "b: always",
    ],
    "[[ $RANK == 0 && -f x ]] || a": ["[[ $RANK == 0 -f x ]]: always", "a: some_ranks"],
    "[ $RANK != 0 ] && exit 0\na": [
        "[ $RANK != 0 ]: always",
        "exit 0: some_ranks",
        "a: always some_ranks",
    ],
    "[ -f x ] || exit 1\na": ["[ -f x ]: always", "exit 1", "a: always"],
    "a; exit 0; b": ["a: always", "exit 0: always", "b"],
    "exec a\nb": ["exec a: always", "b"],
    "exec >log 2>&1\nb": ["exec: always", "b: always"],
    "(cd x; echo a) && b": ["cd x: always", "echo a: always", "b: always"],
    "{ [ $RANK = 0 ]; } && a": ["[ $RANK = 0 ]: always", "a: some_ranks"],
    "a 2>&1 &>x | tee l; b": ["a: always", "tee l: always piped", "b: always"],
    "{ a; b; } & c": ["a: always background", "b: always background", "c: always"],
    "a &\nwait": ["a: always background", "wait: always"],
    "mkdir lock && a": ["mkdir lock: always", "a"],
    "mkdir -p out && a": ["mkdir -p out: always", "a: always"],
    "cat <<E\nx\nE\na": ["cat: always", "a: always"],
    "X=(a b\n c)\nd": ["X=(a b\n c): always", "d: always"],
    "echo 'it' # it's\na": ["echo it: always", "a: always"],
}


def shown(text: str) -> list[str]:
    """Each command with what is true of it."""
    lines = []
    for command in read_script(text).commands:
        kinds = " ".join(kind for kind in KINDS if getattr(command, kind))
        words = " ".join(word.text for word in (*command.assignments, *command.words))
        lines.append(f"{words}: {kinds}" if kinds else words)
    return lines


@pytest.mark.parametrize("text", TEXTS)
def test_it_is_known_when_a_command_runs(text: str) -> None:
    assert shown(text) == TEXTS[text]


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Commands made of commands."""
    test = st.sampled_from(["[ -n x ]", "[ -n '' ]", "true", "false", "((1))", "[[ a == b && c ]]"])
    return st.one_of(
        st.builds("{}\n{}".format, inner, inner),
        st.builds("{{ {}\n}} && {{ {}\n}}".format, inner, inner),
        st.builds("{} && {{ {}\n}}".format, test, inner),
        st.builds("{} || {{ {}\n}}".format, test, inner),
        st.builds("if {}; then\n{}\nelse\n{}\nfi".format, test, inner, inner),
        st.builds("for i in 1 2; do\n{}\ndone".format, inner),
        st.builds("for i in 1; do\n{}\ndone".format, inner),
        st.builds("while false; do\n{}\ndone".format, inner),
        st.builds("( {}\n)".format, inner),
        st.builds("f() {{ {}\n}}\nf".format, inner),
        st.builds("g() {{ {}\n}}".format, inner),
        st.builds("case x in x)\n{};; y) {}\n;; esac".format, inner, inner),
        st.builds("{}\nexit 0".format, inner),
        st.builds("[ -n '' ] && exit 0\n{}".format, inner),
    )


SCRIPTS = st.recursive(st.just("echo @"), compound, max_leaves=6)


@given(SCRIPTS)
@example("{ [ -n '' ] && { echo @\n}\n} && { echo @\n}")
@example("{ echo @\n} && { echo @\nexit 0\n}\necho @")
@example("for i in 1 2; do\necho @\nexit 0\ndone")
def test_what_is_said_to_run_always_is_run_by_bash(template: str) -> None:
    """And what a loop repeats is run again."""
    numbers = count()
    text = "".join(f"p{next(numbers)}" if c == "@" else c for c in template)
    run = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)
    times = Counter(run.stdout.split())
    for command in read_script(text).commands:
        if [word.text for word in command.words[:1]] == ["echo"] and command.always:
            assert times[command.words[1].text] >= (2 if command.repeated else 1)


@given(st.text(st.sampled_from("ab $'\"\\(){}[]<>;&|#\n=!`") | st.characters(), max_size=80))
def test_any_text_is_read(text: str) -> None:
    for command in read_script(text).commands:
        words = (*command.assignments, *command.words)
        assert all(0 <= word.start <= word.end <= len(text) for word in words)
