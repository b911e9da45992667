"""``groups``: what a mapping of programs may say, and what of the whole job goes with it."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.load import check, load_job
from tests.load.complaints import complain

JOB = "name: demo\ntime: 2h\n"
TWO = "groups: {train: {nodes: 2, run: train.py}, serve: {nodes: 1, run: serve.py, until: train}}\n"
A, B = "a: {nodes: 2, run: a.py}", "b: {nodes: 1, run: b.py}"


def test_a_group_has_a_name_and_only_what_differs() -> None:
    loaded = load_job(JOB + TWO, "job.yaml")
    train, serve = loaded.value.groups
    assert (train.name, train.run, train.nodes, train.launcher) == ("train", "train.py", 2, None)
    assert (serve.name, serve.until, serve.ready) == ("serve", "train", None)
    assert (loaded.value.run, loaded.value.nodes) == ("", 3)
    names = [[p.program.name for p in each.programs] for each in loaded.by_step]
    assert names == [["train.py"], ["serve.py"]]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (TWO + "run: a.py\n", "run and groups exclude each other: each group has a run of its own"),
        (TWO + "steps: [{run: a.py}]\n", "steps and groups exclude each other"),
        (TWO + "train: {strategy: ddp}\n", "train describes one program, but groups has several"),
        (TWO + "preflight: full\n", "preflight: full measures the network for one program"),
        (TWO + "nodes: 4\n", "nodes: 4, but the groups have 3"),
        (TWO + "nodes: 1:3\n", "nodes: 1:3, but the groups have 3"),
        (TWO + "launcher: {type: deepspeed, ssh: pdsh}\n", "pdsh starts from the job's first node"),
        ("groups: []\n", "groups: expected a mapping of groups"),
        ("groups: {}\n", "groups: expected a mapping of groups, got an empty one"),
        ("groups: {1st: {nodes: 1, run: a.py}}\n", "the name of a group, got the text '1st'"),
        (f"groups: {{{A}, c: {{nodes: 1, run: c, until: [a]}}}}\n", "the name of a group, got a"),
        ("groups: {a: {nodes: 1}}\n", "groups.a.run is missing"),
        ("groups: {a: {run: a.py}}\n", "groups.a.nodes is missing"),
        ("groups: {a: {nodes: 1, run: a.py, name: b}}\n", "a group has its name before the colon"),
        (
            "groups: {a: {nodes: 1, run: a.py, slurm: {comment: fast}}}\n",
            "groups.a.slurm.comment: comment holds for all groups",
        ),
        (
            "groups: {a: {nodes: 1, run: a.py, slurm: {partitoin: cpu}}}\n",
            "groups.a.slurm.partitoin: sbatch has no option 'partitoin'",
        ),
        (
            f"groups: {{{A}, c: {{run: c.py, on: a, slurm: {{partition: cpu}}}}}}\n",
            "groups.c.slurm: the group runs on the nodes of 'a'",
        ),
        (f"groups: {{{A}, c: {{run: c.py, on: a, mem: 8G}}}}\n", "groups.c.mem: the group runs on"),
        (
            "groups: {a: {nodes: 1, run: a.py, mem: 8G, slurm: {mem-per-cpu: 1G}}}\n",
            "groups.a.mem and groups.a.slurm.mem-per-cpu: both request memory",
        ),
        (
            f"mem: 8G\ngroups: {{{A}, c: {{nodes: 1, run: c, slurm: {{mem-per-cpu: 1G}}}}}}\n",
            "mem and groups.c.slurm.mem-per-cpu: both request memory",
        ),
        (f"groups: {{{A}, c: {{run: c.py, on: b}}}}\n", "no other group is called 'b'"),
        (f"groups: {{{A}, c: {{nodes: 1, run: c, until: c}}}}\n", "no other group is called 'c'"),
        (f"groups: {{{A}, c: {{run: c.py, on: a, nodes: 3}}}}\n", "3, but 'a' has 2"),
        (f"groups: {{{A}, c: {{run: c, on: a}}, d: {{run: d, on: c}}}}\n", "'c' has no nodes of"),
        (
            "groups: {a: {nodes: 1, run: a, until: b}, b: {nodes: 1, run: b, until: a}}\n",
            "'a' runs until 'b' and 'b' runs until 'a': none of them ends first",
        ),
        (f"groups: {{{A}, A: {{nodes: 1, run: b.py}}}}\n", "'a' and 'A' have the same variables"),
        (
            f"groups: {{{A}, c: {{nodes: 1, run: c, ready: {{port: 1, file: x}}}}}}\n",
            "ready needs exactly one of port, file and command",
        ),
        (f"groups: {{{A}, c: {{nodes: 1, run: c, ready: {{port: 0}}}}}}\n", "0 is out of range"),
        (f"groups: {{{A}, c: {{nodes: 2, run: srun a.py}}}}\n", "is a second launcher"),
        (f"groups: {{{A}, c: {{nodes: 1, run: c.py, env: {{RANK: 1}}}}}}\n", "cannot be set"),
        (TWO + "sweep: {grid: {X: [1, 2]}, pack: {nodes: 1}}\n", "groups and sweep.pack exclude"),
    ],
)
def test_what_cannot_be_is_refused(more: str, message: str) -> None:
    assert any(message in each for each in complain(JOB + more)), complain(JOB + more)


def test_the_sum_of_the_nodes_may_be_written() -> None:
    assert load_job(JOB + "nodes: 3\n" + TWO, "job.yaml").value.nodes == 3


def test_a_group_beside_another_one_has_no_nodes_to_add() -> None:
    text = f"{JOB}groups: {{{A}, {B}, c: {{run: c.py, on: a}}}}\n"
    assert load_job(text, "job.yaml").value.nodes == 3


def test_a_driver_beside_a_large_group_needs_no_launcher() -> None:
    text = JOB + "groups: {head: {nodes: 1, run: head.py}, driver: {run: python d.py, on: head}}\n"
    assert not check(text, "job.yaml").problems


def test_the_command_of_a_group_is_read_like_that_of_a_job() -> None:
    text = JOB + TWO.replace("serve.py", "'sbatch serve.py'")
    assert [problem.code for problem in check(text, "job.yaml").problems] == ["J307"]


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        ("groups: {train: {nodes: 1, runn: a.py}}\n", "did you mean 'run'?"),
        ("groups: {a: {nodes: 1, run: a, ready: {prot: 80}}}\n", "did you mean 'port'?"),
        ("groups: {a: {nodes: 1, command: a.py}}\n", "write run: a.py"),
    ],
)
def test_a_key_that_is_not_known_has_the_nearest_one_of_a_group(more: str, hint: str) -> None:
    with pytest.raises(Invalid) as caught:
        load_job(JOB + more, "job.yaml")
    assert [problem.hint for problem in caught.value.problems if problem.code == "J102"] == [hint]


def test_a_misspelled_groups_lets_nothing_else_be_missing() -> None:
    assert complain(JOB + "group: {a: {nodes: 1, run: a.py}}\n") == ["unknown key 'group'"]
    assert complain(JOB + "nodes: 1\nstep: [{run: a.py}]\n") == ["unknown key 'step'"]


@pytest.mark.parametrize(
    ("more", "message", "hint"),
    [
        ("ready: 8000", "expected a mapping, got 8000", "such as {port: 8000}"),
        ("ready: auto", "got the text 'auto'", "such as {port: auto}"),
        ("ready: {port: 1, timeout: 5}", "'5' has no unit", "write 5h or 5m"),
        ("on: b", "'b' has no nodes of its own", "such as a: {nodes: 1}"),
    ],
)
def test_a_hint_is_about_this_group(more: str, message: str, hint: str) -> None:
    nodes = "" if "on" in more else "nodes: 1, "
    text = f"{JOB}groups: {{a: {{{nodes}run: a, {more}}}, b: {{run: b, on: a}}}}\n"
    with pytest.raises(Invalid) as caught:
        load_job(text, "job.yaml")
    problem = caught.value.problems[0]
    assert message in problem.message
    assert hint in problem.hint
    assert "Slurm" not in problem.hint


def test_a_circle_of_until_is_reported_once() -> None:
    each = [f"{a}: {{nodes: 1, run: a, until: {b}}}" for a, b in ("ab", "bc", "ca")]
    (message,) = complain(f"{JOB}groups: {{{', '.join(each)}}}\n")
    assert message.startswith("groups.a.until: 'a' runs until 'b', 'b' runs until 'c' and 'c'")


def test_a_variable_of_no_group_is_noted_where_it_stands() -> None:
    text = JOB + TWO.replace(
        "run: train.py", 'run: "train.py $JOBGEN_HOST_SERV $JOBGEN_HOST_SERVE"'
    )
    noted = [each for each in check(text, "job.yaml").problems if each.code == "J330"]
    assert [each.hint for each in noted] == ["did you mean JOBGEN_HOST_SERVE?"]
    assert noted[0].place is not None
    assert text.splitlines()[2][noted[0].place.col - 1 :].startswith("JOBGEN_HOST_SERV ")
