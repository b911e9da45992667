"""job.yaml: what is read, what is refused, and where the finger points."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.errors import Diagnostic, Invalid, Place
from jobgen.load import check, detect_kind, load_job
from jobgen.model.job import JobSpec
from jobgen.model.loaded import Loaded
from jobgen.model.units import Walltime

BASE = {"name": "demo", "nodes": "2", "gpus_per_node": "8", "time": "2h", "run": "train.py"}


def text(more: str = "", **changed: str) -> str:
    keys = BASE | changed
    return "".join(f"{k}: {v}\n" for k, v in keys.items()) + textwrap.dedent(more)


def load(more: str = "", *, sets: tuple[str, ...] = (), **changed: str) -> Loaded[JobSpec]:
    return load_job(text(more, **changed), "job.yaml", sets=sets)


def problems(
    more: str = "", *, sets: tuple[str, ...] = (), **changed: str
) -> tuple[Diagnostic, ...]:
    with pytest.raises(Invalid) as caught:
        load(more, sets=sets, **changed)
    return caught.value.problems


def problem(more: str = "", *, sets: tuple[str, ...] = (), **changed: str) -> Diagnostic:
    (one,) = problems(more, sets=sets, **changed)
    return one


def warned(more: str = "", **changed: str) -> list[str]:
    return [w.code for w in load(more, **changed).warnings]


def test_a_job_is_read_with_the_place_of_every_key() -> None:
    loaded = load("env:\n  HF_HOME: /scratch/$USER/hf\n  LR: 1e-5\n")
    assert loaded.value.time == Walltime(7200)
    assert loaded.value.env == {"HF_HOME": "/scratch/$USER/hf", "LR": "1e-5"}
    assert loaded.find_place("env", "LR") == Place("job.yaml", 8, 3, 5)
    assert str(loaded.cite("nodes")) == "job.yaml:2"
    assert str(loaded.cite("launcher", "type")) == "job.yaml"
    assert loaded.warnings == ()


@pytest.mark.parametrize(
    "value", ["1e-5", "True", "0x10", "1.50", "007", "no", "2024-01-01", "1:30"]
)
def test_values_of_the_environment_arrive_as_written(value: str) -> None:
    assert load(f"env: {{A: {value}}}").value.env["A"] == value


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    more = "gpus_per_nodes: 8\nlauncher: torchrum\nslurm: {qso: high}\nenv: {A B: 1}\nnodes: 3\n"
    found = problems(more, nodes="0", time="4:00")
    assert [p.code for p in found] == ["J122", "J131", "J102", "J123", "J140", "J125", "J103"]
    assert [p.place.line for p in found if p.place] == [2, 4, 6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("num_nodes", "write nodes: 1"),
        ("accelerators", "write gpus_per_node: 1, per node: divide a total by nodes"),
        ("envs", "write env"),
        ("command", "write run: 1"),
        ("image", "write container: 1"),
        ("partition", "write slurm: {partition: 1}"),
        ("gpusPerNode", "did you mean 'gpus_per_node'?"),
        ("gpus-per-node", "did you mean 'gpus_per_node'?"),
        ("laucher", "did you mean 'launcher'?"),
        ("max_requeues", "write checkpoint: {max_requeues: 1}"),
    ],
)
def test_an_unknown_key_is_translated(key: str, hint: str) -> None:
    found = problem(f"{key}: 1")
    assert (found.code, found.hint) == ("J102", hint)
    assert found.place == Place("job.yaml", 6, 1, 1 + len(key))


def test_a_misspelt_key_is_not_missing_too() -> None:
    with pytest.raises(Invalid) as caught:
        load_job("name: a\nnods: 2\ntime: 1h\ncommand: train.py\n", "job.yaml")
    assert [p.code for p in caught.value.problems] == ["J102", "J102"]


def test_what_there_was_in_no_version_is_an_unknown_key() -> None:
    for line in ("nccl: {profile: auto}", "hooks: {a: 1}"):
        found = problem(line)
        assert found.code == "J102"
        assert found.hint.startswith("jobgen has no such key; ")


def test_a_name_may_hold_a_colon() -> None:
    job = load("after: ['prep:data']", name="sft:llama-8b").value
    assert (job.name, job.after) == ("sft:llama-8b", ("prep:data",))
    assert problem(name="':sft'").code == "J124"
    assert problem(name="sft/llama").code == "J124"
    assert problem("labels: {'a:b': c}").code == "J124"


def test_missing_keys_have_no_line() -> None:
    with pytest.raises(Invalid) as caught:
        load_job("name: a\ncheckpoint: {}\ncontainer: {runtime: docker}\n", "job.yaml")
    found = [(p.message, p.place) for p in caught.value.problems]
    assert found[:2] == [
        ("run is missing", Place("job.yaml")),
        ("nodes is missing", Place("job.yaml")),
    ]
    assert found[2] == ("container.image is missing", Place("job.yaml", 3, 1, 10))


@pytest.mark.parametrize(
    ("run", "outside"),
    [
        ("../../x.py", True),
        ("python ../x.py", True),
        ("python -u -W ignore ../x.py --lr 1", True),
        ("python -W ignore -X dev ../x.py", True),
        ("A=1 ~/train.py", True),
        ("numactl -N 0 python ../x.py", True),
        ("|\n  cd src\n  python a/../../../x.py", True),
        ("|\n  cd src\n  python a/../../x.py", False),
        ("|\n  cd $DATA\n  python ../x.py", False),
        ("python /shared/x.py", False),
        ("/home/me/train.py", False),
        ("train.py --config ../conf.yaml", False),
        ("python -m pkg.train --data /data", False),
        ("$PROJECT/train.py", False),
        ("bash ../run.sh", False),
        ("python -c 'print(1)'", False),
    ],
)
def test_a_program_outside_the_workdir_is_refused(run: str, outside: bool) -> None:
    found = check(text(run=run), "job.yaml")
    assert found.valid is not outside
    if outside:
        assert found.problems[0].code == "J136"
        assert "workdir" in found.problems[0].message


@pytest.mark.parametrize("run", ["/shared/x.py", "python -W ignore /shared/x.py --lr 1"])
def test_a_program_on_the_cluster_is_allowed_and_said_to_be_unchecked(run: str) -> None:
    (note,) = load(run=run).warnings
    assert (note.code, note.severity) == ("J224", "note")
    assert "'/shared/x.py' is neither uploaded nor checked" in note.message
    assert load("container: a.sqsh", run=run).warnings == ()


def test_a_program_in_the_home_directory_is_offered_as_it_is_on_the_cluster() -> None:
    assert "$HOME/train.py" in problem(run="python ~/train.py").hint


def test_the_line_inside_a_block_is_named() -> None:
    found = problem(run="|\n  set -e\n  python ../x.py")
    assert found.place == Place("job.yaml", 7)


@pytest.mark.parametrize(
    ("more", "first", "second"),
    [
        ("mem: 64G\nslurm: {mem-per-gpu: 8G}", 6, 7),
        ("slurm: {exclusive: true, oversubscribe: true}", 6, 6),
        ("launcher: {type: deepspeed, rdzv: static}", 6, 6),
        ("launcher: {type: torchrun, ssh: pdsh}", 6, 6),
        ("checkpoint: {grace: 3h}", 4, 6),
        ("env: {A: 1}\nsecrets: [A]", 7, 6),
    ],
)
def test_keys_that_contradict_each_other_are_both_named(more: str, first: int, second: int) -> None:
    found = problem(more)
    assert found.code == "J138"
    assert [p.line for p in (*found.also, found.place) if p] == [first, second]


def test_ranks_may_be_counted_for_nodes_with_gpus_and_for_nodes_without() -> None:
    assert load("procs_per_node: 2", gpus_per_node="4").value.gpus_per_node == 4
    assert load("procs_per_node: 2", gpus_per_node="0").value.procs_per_node == 2


def test_an_elastic_job_needs_torchrun() -> None:
    assert load(nodes="2:4").value.min_nodes == 2
    assert problem("launcher: srun", nodes="2:4").code == "J138"
    assert problem("launcher: {rdzv: static}", nodes="2:4").code == "J138"


def test_ranks_of_several_nodes_are_started_again_by_c10d_only() -> None:
    static = "launcher: {rdzv: static, max_restarts: 3}"
    found = problem(static, nodes="2")
    assert (found.code, found.hint) == ("J138", "set rdzv: c10d, or max_restarts: 0")
    assert "waits forever" in found.message
    assert [p.line for p in (*found.also, found.place) if p] == [2, 6, 6]
    assert load(static, nodes="1").value.launcher.max_restarts == 3
    assert load("launcher: {rdzv: static, max_restarts: 0}", nodes="2").value.nodes == 2
    assert load("launcher: {max_restarts: 3}", nodes="2").value.launcher.rdzv == "c10d"


@pytest.mark.parametrize(
    "name",
    [
        *("BASH_ENV", "ENV", "PYTHONSTARTUP", "RANK", "MASTER_PORT", "SLURM_X", "JOBGEN_X"),
        *("RDZV_ID", "UID", "EUID", "PPID"),
    ],
)
def test_variables_that_are_not_the_users_are_refused(name: str) -> None:
    for more in (f"env: {{{name}: x}}", f"nccl: {{env: {{{name}: x}}}}", f"secrets: [{name}]"):
        assert problem(more).code == "J126"


@pytest.mark.parametrize(
    "more",
    [
        "env: {HF_TOKEN: abc}",
        "env: {MY_API_KEY: 0123456789}",
        "env: {DB_PASSWORD: x}",
        "env: {X: hf_abcdefghijk}",
        "env: {X: 'sk-proj-abcdefghijklmnop'}",
        "setup: export T=ghp_abcdefghijkl",
        "secrets: {HF_TOKEN: hf_abcdefghijk}",
        "secrets: [hf_abcdefghijk]",
        "env: {hf_abcdefghijk: 1}",
        "vars: {A: AKIAIOSFODNN7EXAMPLE}\nlabels: {a: '${A}'}",
        "vars: {A: abcdefghijk}\nenv: {WANDB_API_KEY: '${A}'}",
        "slurm: {comment: hf_abcdefghijk}",
        "launcher: {args: [--token=glpat-abcdefghijk]}",
    ],
)
def test_the_value_of_a_secret_in_the_file_is_refused_and_never_shown(more: str) -> None:
    found = problems(more)
    assert {p.code for p in found} == {"J150"}
    for secret in ("abcdefghijk", "IOSFODNN7", "0123456789"):
        assert all(secret not in p.message + p.hint for p in found)


@pytest.mark.parametrize(
    "more",
    [
        "env: {TOKENIZERS_PARALLELISM: false}",
        "env: {HF_TOKEN_PATH: /home/me/token}",
        "env: {HF_HUB_DISABLE_IMPLICIT_TOKEN: 1}",
        "env: {HF_TOKEN: $MY_TOKEN}",
        "env: {GOOGLE_APPLICATION_CREDENTIALS: /home/me/key.json}",
        "env: {SORT_KEY: name}",
        "secrets: [HF_TOKEN, WANDB_API_KEY]",
        "labels: {task-sk: risk-based}",
    ],
)
def test_what_only_resembles_a_secret_passes(more: str) -> None:
    assert check(text(more), "job.yaml").problems == ()


def test_a_null_value_is_empty() -> None:
    assert [p.code for p in problems("env:\nmem: ~\nsetup: [a, null]\n", name="")] == ["J118"] * 4
    assert load("secrets: {A: }").value.secrets[0].name == "A"


def test_a_spoiled_value_is_told_once() -> None:
    assert [p.code for p in problems(nodes="!x 2.5")] == ["J108"]
    assert [p.code for p in problems(run="{{ script }}")] == ["J114"]


def test_the_kind_of_a_file_shows_in_its_keys() -> None:
    assert detect_kind(text(), "x") == "job"
    assert detect_kind("name: c\nscheduler: slurm\nnodes: {count: 2}\n", "x") == "cluster"
    assert detect_kind("nodes: 2\nscheduler: slurm\nssh: x\npaths: y\n", "x") == "cluster"
    assert detect_kind("", "x") == "job"
    assert detect_kind("scheduler: slurm\nssh: [\n", "x") == "cluster"


def test_checking_never_raises_and_says_whether_the_file_is_valid() -> None:
    assert check(text(), "job.yaml").valid
    assert not check(text(nodes="0"), "job.yaml").valid
    found = check(text("secrets: [A]\nsetup: set -x\n"), "job.yaml")
    assert found.valid
    assert [(p.code, p.severity) for p in found.problems] == [("J305", "error")]


def test_an_error_of_a_rule_leaves_the_file_usable() -> None:
    assert [w.severity for w in load("secrets: [A]\nsetup: set -x\n").warnings] == ["error"]


@given(
    st.dictionaries(
        st.sampled_from([*JobSpec.keys, "x"]), st.text(max_size=20) | st.integers() | st.none()
    )
)
def test_no_values_make_checking_fail(data: dict[str, object]) -> None:
    import json

    for problem_ in check(json.dumps(data), "job.yaml").problems:
        assert (problem_.message + problem_.hint).replace("\n", "").isprintable()


@given(
    st.recursive(
        st.text(max_size=9) | st.none() | st.booleans() | st.floats(),
        lambda i: (
            st.lists(i)
            | st.dictionaries(st.sampled_from(["type", "env", "extra", "gres", "dir", "A"]), i)
        ),
    )
)
def test_no_shape_of_a_value_makes_checking_fail(value: object) -> None:
    import json

    for key in (
        "launcher",
        "env",
        "slurm",
        "checkpoint",
        "secrets",
        "nccl",
        "run",
        "workdir",
        "nodes",
        "vars",
    ):
        check(f"{text()}\n{json.dumps({key: value})[1:-1]}\n", "job.yaml")


def test_a_secret_reaches_no_other_message() -> None:
    found = problems(
        "vars: {K: AKIAIOSFODNN7EXAMPLE}\nlabels: {'a b': '${K}'}\nslurm: {qso: '${K}'}\n",
        name="demo ${K}",
    )
    assert {p.code for p in found} == {"J150", "J124", "J140"}
    assert all("AKIA" not in p.message + p.hint for p in found)


@pytest.mark.parametrize(
    ("nodes", "hint"),
    [
        ("1-4", "write 1:4 for an elastic job"),
        ("4-1", "write 1:4 for an elastic job"),
        ("1..4", "write 1:4 for an elastic job"),
        ("1 to 4", "write 1:4 for an elastic job"),
        ("many", "use an integer of at least 1 or MIN:MAX for an elastic job"),
    ],
)
def test_a_range_of_nodes_in_another_spelling_is_translated(nodes: str, hint: str) -> None:
    assert problem(nodes=nodes).hint == hint


def test_a_missing_key_is_shown_as_it_is_written() -> None:
    (missing,) = check("name: a\nrun: train.py\ntime: 1h\n", "job.yaml").problems
    assert (missing.code, missing.hint) == ("J116", "add nodes: 2")


@pytest.mark.parametrize(
    ("params", "hint"),
    [
        ("7B", "write 7e9"),
        ("1.5B", "write 1.5e9"),
        ("350M", "write 350e6"),
        ("'7000'", "write 7000 without quotes"),
        ("seven", "write it in digits"),
    ],
)
def test_a_number_with_a_letter_is_translated(params: str, hint: str) -> None:
    more = f"train: {{model: {{layers: 2, hidden: 8, heads: 2, params: {params}}}}}\n"
    assert problem(more).hint == hint


@pytest.mark.parametrize("indexes", ["0-35%4", "1,3,5-9:2", "7"])
def test_an_array_is_written_as_sbatch_has_it(indexes: str) -> None:
    assert load(f"array: {indexes}\n").value.array == indexes


@pytest.mark.parametrize(
    "indexes", ["3-0", "0-", "'1,,2'", "0-8:0", "0-8%0", "0-8%", "'[0-8]'", "0-4000001", "true"]
)
def test_indexes_that_sbatch_refuses_are_refused(indexes: str) -> None:
    found = problem(f"array: {indexes}\n")
    assert (found.code, "for example 0-35" in found.hint) == ("J143", True)


def test_entries_of_a_race_cannot_change_the_nodes_of_groups() -> None:
    groups = "groups: {a: {nodes: 1, run: a.py}, b: {nodes: 1, run: b.py}}\n"
    with pytest.raises(Invalid) as refused:
        load_job(f"name: a\ntime: 1h\n{groups}race: [{{nodes: 1}}, {{nodes: 2}}]\n", "job.yaml")
    messages = [problem.message for problem in refused.value.problems]
    wanted = "the entries of a race cannot differ in nodes or GPUs: groups set them"
    assert messages.count(wanted) == 2
