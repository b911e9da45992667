"""``run:``, job rules, variables and job scripts read shell text alike, and as bash does."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.errors import Diagnostic
from jobgen.load import check, read_job
from jobgen.load.sbatch_script import read_directive
from jobgen.resolve.program import read
from jobgen.shell.exports import list_exports
from jobgen.shell.programs import read_started
from tests.waiting import HANG

JOB = "name: a\nnodes: 2\ngpus_per_node: 8\ntime: 1h\nlauncher: plain\n"
_PROGRAMS = ("python", "torchrun", "srun")
_RECORD = """\
#!/bin/bash
exec >> "$RECORD"
printf '%s\\0' "${0##*/}" "$@"
printf '\\1\\0'
env -0 | grep -z '^NCCL_'
printf '\\2\\0'
"""


class Started(NamedTuple):
    """What bash started of these programs, and the variables that they found."""

    argv: list[list[str]]
    env: dict[str, str]


def run_by_bash(text: str, folder: Path) -> Started:
    for name in _PROGRAMS:
        program = folder / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(_RECORD)
        program.chmod(0o755)
    record = folder / "record"
    env = {"PATH": f"{folder}/bin:/usr/bin:/bin", "RECORD": str(record)}
    subprocess.run(["bash", "-c", text], cwd=folder, env=env, capture_output=True, timeout=HANG)
    argv: list[list[str]] = []
    found: dict[str, str] = {}
    for started in record.read_text().split("\2\0")[:-1] if record.exists() else ():
        words, variables = started.split("\1\0")
        argv.append(words.split("\0")[:-1])
        found |= dict(line.partition("=")[::2] for line in variables.split("\0")[:-1])
    return Started(argv, found)


EXPORT = "export NCCL_DEBUG=INFO"
SET = "NCCL_DEBUG=INFO python train.py"
TEXTS = [
    # which program, with which words
    "python -W ignore train.py --lr 1",
    "python -W ignore -u train.py --lr 1",
    "python train.py -u",
    "python -um pkg.train a",
    "python -m torch.distributed.run train.py x",
    "torchrun --nnodes 2 train.py --lr 1",
    "srun -l python train.py",
    "python train.py 'a b' c\\ d \"e f\" --x='1'\"2\" # g",
    "python train.py 2>&1 >log | cat",
    "python \\\n  train.py \\\n  --lr 1",
    "cat <<EOF >x\npython a.py\nEOF\npython train.py",
    "cat <<-'EOF' >x; python train.py\n\tit's\n\tEOF\n",
    "python train.py <<<'python a.py'",
    "exec -a name python train.py",
    "coproc python train.py; wait",
    "nohup setsid python train.py",
    "bash -o pipefail -c 'python train.py'",
    "bash --norc -ec 'python train.py --name \"a b\"'",
    f"bash <<'E'\n{EXPORT}\npython train.py\nE",
    "timeout 9 bash -c 'python train.py'",
    "CMD='python train.py --name \"x y\"'\n$CMD",
    'CMD=\'python train.py --name "x y"\'\neval "$CMD"',
    "CMD='python train.py && echo done'\neval \"$CMD\"",
    "CMD='python train.py'\nCMD+=' --lr 1'\n$CMD",
    "ARGS=(train.py 'b c')\nARGS+=(--lr 1)\npython \"${ARGS[@]}\"",
    "for x in 1; do python train.py; done",
    "if true; then python train.py; else :; fi",
    "while python train.py; do break; done",
    "case a in\n  b) : ;;\n  a|c) python train.py ;;\nesac",
    "f() { python train.py; }\nf",
    "function f\n{\n  python train.py\n}\nf",
    "(cd . && python train.py) && { python eval.py; }",
    # which variables
    f"{EXPORT}\npython train.py",
    SET,
    f"time {SET}",
    f"! {SET}",
    f"{{ {SET}; }}",
    f"env {SET}",
    f"command env {SET}",
    f"env -u X -C . {SET}",
    f"env --unset X {SET}",
    f"env {SET} && env -i true",
    f"eval '{EXPORT}'\npython train.py",
    f'eval "{SET}"',
    f'bash -c "{EXPORT}; python train.py"',
    'bash -c "export NCCL_DEBUG=\\"INFO\\"; python train.py"',
    f"CMD='env {SET}'\n$CMD --lr 1",
    f"S='{EXPORT}; python train.py'\nbash -c \"$S\"",
    f"command {EXPORT}\npython train.py",
    f"builtin {EXPORT}; python train.py",
    f"f() {{ {EXPORT}; }}; f; python train.py",
    "declare -gx NCCL_DEBUG=INFO; python train.py",
    "export NCCL_DEBUG\nNCCL_DEBUG=INFO\npython train.py",
    "NCCL_DEBUG=INFO; export NCCL_DEBUG; python train.py",
    "set -a\ncase a in NCCL_DEBUG=INFO) ;; esac\npython train.py",
    "set -a; NCCL_DEBUG=INFO; set +a; NCCL_ALGO=Ring\npython train.py",
    "export NCCL_DEBUG=IN\\\nFO 'NCCL_ALGO'=\"Ring\" # x\npython train.py",
    "export NCCL_DEBUG=${NCCL_DEBUG:-INFO}\npython train.py",
    "V=INFO; export NCCL_DEBUG=$V; python train.py",
    # which are none
    "python train.py NCCL_DEBUG=INFO",
    '"NCCL_DEBUG=INFO" python train.py',
    "python train.py > NCCL_DEBUG=INFO",
    f"echo '{EXPORT}' {EXPORT}; python train.py",
    f"# {EXPORT}\npython train.py",
    "for x in NCCL_DEBUG=INFO; do python train.py; done",
    "[[ a == b || NCCL_DEBUG=INFO ]]; python train.py",
    "NCCL_DEBUG=INFO; python train.py",
]


@pytest.mark.parametrize("text", TEXTS)
def test_each_entry_reads_what_bash_runs(text: str, tmp_path: Path) -> None:
    """The programs and variables of a job, its diagnostics, and those of a job script."""
    started = run_by_bash(text, tmp_path)
    job = JOB + "run: |\n" + textwrap.indent(text, "  ") + "\n"
    loaded = read_job(job, "job.yaml").loaded
    assert loaded is not None
    read_argv = [[word.text for word in program.words] for program, _ in loaded.programs]
    assert [argv for argv in read_argv if argv[0] in _PROGRAMS] == started.argv
    known = {one.name: one.value for one in loaded.variables}
    assert known.keys() == started.env.keys()
    assert all(known[name] in {None, value} for name, value in started.env.items())
    lines = "\n" * job.count("\n", 0, job.index("run:"))
    script = check(f"#!/bin/bash{lines}\n{text}\n", "a.sbatch").problems
    assert judge_variables(check(job, "job.yaml").problems) == judge_variables(script)


LEAVES = ["python train.py", "NCCL_DEBUG=INFO python train.py 'a b'", "export NCCL_ALGO=Ring"]
AROUND = [
    "{}\n{}",
    "{} && {{ {}; }}",
    "( {}\n)",
    "if true; then {}\nfi",
    "for x in 1; do {}\ndone",
    "case x in x) {};; esac",
    "f() {{ {}\n}}\nf",
    "echo '{{' | cat; {}",
    "cat <<E >/dev/null\npython x.py\nE\n{}",
]
BEFORE_TEXT = ["bash -c ", "eval ", "env -u X bash -ec ", "command eval ", "time bash -c "]


def wrap(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Texts with texts in them."""
    around = st.builds(lambda form, a, b: form.format(a, b), st.sampled_from(AROUND), inner, inner)
    quoted = st.builds(lambda start, a: start + shlex.quote(a), st.sampled_from(BEFORE_TEXT), inner)
    return around | quoted


ONCE = wrap(st.sampled_from(LEAVES))


@given(ONCE | wrap(ONCE))
def test_any_nesting_is_read_as_bash_runs_it(text: str) -> None:
    """Programs in their order, and every variable that one of them found."""
    with tempfile.TemporaryDirectory() as folder:
        started = run_by_bash(text, Path(folder))
    programs = list(read_started(text))
    argv = [[w.text for w in program.words] for program in programs if program.is_training]
    assert argv == started.argv
    exported = {export.name: export.value for export in list_exports(programs)}
    assert started.env.items() <= exported.items()


def judge_variables(problems: tuple[Diagnostic, ...]) -> list[tuple[str, str, int]]:
    """What is reported about NCCL's variables: code, message and line."""
    return [(p.code, p.message, p.place.line) for p in problems if p.place and "NCCL" in p.message]


@pytest.mark.parametrize("text", [t for t in TEXTS if read(t).simple])
def test_the_program_of_every_rank_is_what_the_rules_read(text: str, tmp_path: Path) -> None:
    """The text that starts a rank runs the same command, which ends with these arguments."""
    program = read(text)
    written = run_by_bash(text, tmp_path).argv
    (tmp_path / "record").unlink(missing_ok=True)
    rendered = run_by_bash(program.text, tmp_path).argv
    plain = [[word for word in argv if word != "-u"] for argv in (*written, *rendered)]
    assert plain[: len(written)] == plain[len(written) :]
    expected = [word for word in program.argv if word != "-u"]
    assert all(argv[-len(expected) :] == expected for argv in plain)


def test_python_is_unbuffered_whatever_the_program_is_given() -> None:
    assert read("python train.py -u").text == "exec python -u train.py -u"
    assert read("python -u -c 'x' -u").text == "exec python -u -c 'x' -u"
    assert read("python -W ignore -u train.py").text == "exec python -W ignore -u train.py"
    assert read("python -W ignore train.py -u").argv == ("train.py", "-u")


def report(run: str, **keys: str) -> list[tuple[str, int]]:
    """Code and line of each diagnostic about a job, from the line of ``run:`` on."""
    job = JOB + "".join(f"{key}: {value}\n" for key, value in keys.items())
    problems = check(job + "run: |\n" + textwrap.indent(run, "  ") + "\n", "job.yaml").problems
    above = job.count("\n") + 1
    return [(p.code, p.place.line - above) for p in problems if p.place and p.place.line > above]


ASSIGNING = [
    "X=1",
    "export X=1",
    "declare -i X=1",
    "read -r -p x X <<<1",
    "read A X <<<'0 1'",
    "for X in 1; do :; done",
    "for A in 0; do for X in 1; do :; done; done",
    "select X in 1; do break; done <<<1",
    "mapfile -t X <<<1",
    "printf -v X 1",
    "getopts a X -a",
    ": ${X:=1}",
    "A=0 X=1",
    "X[0]=1",
    "if X=1; then :; fi",
]


@pytest.mark.parametrize("text", ASSIGNING)
def test_a_variable_that_the_text_assigns_is_the_shells(text: str) -> None:
    bash = subprocess.run(["bash", "-c", f"{text}\necho ${{X}}"], capture_output=True, text=True)
    assert bash.stdout.strip()
    assert ("J160", 2) not in report(f"{text}\ntrain.py ${{X}}")


@pytest.mark.parametrize("text", ["train.py X=1", "echo ' X' =1", "python -X=1", "# X=1", ":"])
def test_a_variable_that_nothing_assigns_is_not_declared(text: str) -> None:
    bash = subprocess.run(["bash", "-c", f"{text}\necho ${{X}}"], capture_output=True, text=True)
    assert not bash.stdout.splitlines()[-1]
    assert ("J160", 2) in report(f"{text}\ntrain.py ${{X}}")


@pytest.mark.parametrize(
    ("run", "codes"),
    [
        ("if true; then set -x; fi\ntrain.py", ["J305"]),
        ("(set -euxo pipefail)\ntrain.py", ["J305"]),
        ("bash -c 'set -o xtrace; train.py'", ["J305"]),
        ("echo 'a\nset -x'\ntrain.py # set -x", []),
        ("cat <<E\nset -x\nE\ntrain.py", []),
        ("true\n#SBATCH -N 2\ntrain.py", ["J307"]),
        ("true && sbatch next.sbatch\ntrain.py", ["J307"]),
        ("cat >next.sbatch <<'E'\n#!/bin/bash\n#SBATCH -N 2\nE\ntrain.py", []),
        ("echo '\nsbatch x'\ntrain.py", []),
    ],
)
def test_rules_judge_commands_not_lines(run: str, codes: list[str]) -> None:
    job = JOB + "secrets: {TOKEN: {env: TOKEN}}\nrun: |\n" + textwrap.indent(run, "  ") + "\n"
    problems = check(job, "job.yaml").problems
    assert [p.code for p in problems if p.code in {"J305", "J307"}] == codes


def test_lines_under_setup_are_one_text() -> None:
    job = JOB + "run: train.py\nsetup:\n- export NCCL_DEBUG\n- NCCL_DEBUG=INFO\n"
    (problem,) = [p for p in check(job, "job.yaml").problems if "NCCL" in p.message]
    assert problem.place
    assert problem.place.line == 9


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--nodes=2 -J 'a b' # why", ["--nodes=2", "-J", "a b"]),
        ('--constraint=a|b&c --comment="it\'s"', ["--constraint=a|b&c", "--comment=it's"]),
        ("--comment=a\\ b --array=1-3%2", ["--comment=a b", "--array=1-3%2"]),
        ("-N2 --gres=gpu:(x) --output=%x;y", ["-N2", "--gres=gpu:(x)", "--output=%x;y"]),
        ("--comment='open", []),
    ],
)
def test_a_directive_has_the_words_that_sbatch_reads(line: str, words: list[str]) -> None:
    assert read_directive(f"#SBATCH {line}") == words


def test_a_directive_is_no_shell_text() -> None:
    """Slurm splits it at blanks only, and expands nothing."""
    head = "#!/bin/bash\n#SBATCH --constraint=a&b --export=ALL,NCCL_DEBUG=INFO\n"
    (problem,) = [p for p in check(head + "true\n", "a.sbatch").problems if p.code == "J308"]
    assert problem.place
    assert (problem.place.line, problem.place.col) == (2, 26)
    text = "#!/bin/bash\necho '\n#SBATCH -N 2\n'\n"
    assert check(text, "a.sbatch").problems == ()
