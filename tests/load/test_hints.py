"""Whoever follows a hint about a key is not refused again for its name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import pytest

from jobgen.data import sbatch_options
from jobgen.load import check
from jobgen.load.aliases import get_form
from jobgen.load.foreign_keys import FOREIGN, NO_SUCH_KEY
from jobgen.model.cluster import ClusterProfile
from jobgen.model.job import JobSpec
from tests.load.test_named_keys import check_command

JOB = "name: a\nnodes: 1\ntime: 1h\nrun: train.py\n"
CLUSTER = (
    "name: b\nscheduler: slurm\nssh: {host: b}\npaths: {root: /scratch/b}\n"
    "nodes: {count: 2}\nnetwork: {fabric: ethernet}\n"
)
FILES = {"job": JOB, "cluster": CLUSTER}
FORMS = {"job": JobSpec, "cluster": ClusterProfile}
REFUSALS = {"J102", "J117", "J140", "J141", "J142", "J144", "J170"}
"""Codes of a key or an option that cannot stand where it stands."""
PROSE = {
    "has",
    "parses",
    "sets",
    "writes",
    "runs",
    "appends",
    "starts",
    "asks",
    "adds",
    "reads",
    "repeats",
    "requests",
}
"""Verbs of English, where the others are jobgen's."""
SHORT = re.compile(r"[A-Z][A-Z_:]*")


def write(kind: str, path: tuple[str, ...], value: str = "x") -> str:
    """The file with this key added, in place of what it has under that name."""
    *above, last = path
    text = "".join(f"{name}: {{" for name in above) + f"{last}: {value}" + "}" * len(above)
    return add(FILES[kind], text)


def add(text: str, line: str) -> str:
    name = line.partition(":")[0]
    kept = [old for old in text.splitlines() if not old.startswith(f"{name}:")]
    return "\n".join([*kept, line, ""])


def ask(kind: str, text: str, names: tuple[str, ...]) -> tuple[str, str]:
    """The code and the hint of the refusal of a key; empty where it is none."""
    checked = check(text, f"{kind}.yaml")
    assert checked.kind == kind, text
    dotted = ".".join(names)
    for problem in checked.problems:
        if problem.severity != "error" or problem.code not in REFUSALS:
            continue
        if re.search(rf"\b{re.escape(dotted)}\b", problem.message):
            return problem.code, problem.hint
    return "", ""


def take_apart(hint: str) -> list[str]:
    """The YAML that a hint tells to write: ``key`` or ``key: value``, one or several."""
    text = re.sub(r"^(write|until then:) ", "", hint)
    depth, cut = 0, len(text)
    for at, sign in enumerate(text):
        depth += (sign in "{[") - (sign in "}]")
        if depth == 0 and (
            sign in ",;" or text.startswith((" at the top", " in the ", " in job"), at)
        ):
            cut = at
            break
    return [piece.strip() for piece in re.split(" and | or ", text[:cut])]


def obey(kind: str, path: tuple[str, ...], hint: str) -> Iterator[tuple[str, str, str]]:
    """What a reader of the hint writes next: kind of file, its text, and the key that was added."""
    if "in the cluster's profile" in hint or "key of a cluster's profile" in hint:
        kind = "cluster"
    elif "in job.yaml" in hint or "key of a job" in hint:
        kind = "job"
    elif path[:-1] and "at the top of the file" not in hint:
        for piece in pieces(path, hint):
            name, _, value = piece.partition(": ")
            yield kind, write(kind, (*path[:-1], name), fill(value)), ".".join((*path[:-1], name))
        return
    for piece in pieces(path, hint):
        name, _, value = piece.partition(": ")
        yield kind, add(FILES[kind], f"{name}: {fill(value)}"), name


def pieces(path: tuple[str, ...], hint: str) -> list[str]:
    near = re.match(r"did you mean '(.+)'", hint)
    if near:
        return [near[1]]
    if hint.startswith(("it is a key", f"'{path[-1]}' stands at the top")):
        return [path[-1].replace("-", "_")]
    assert hint.startswith(("write ", "instead: ")), hint
    return take_apart(hint)


def fill(value: str) -> str:
    return SHORT.sub("a", value.replace("…", "1")) or "1"


def walk(kind: str, path: tuple[str, ...]) -> None:
    code, hint = ask(kind, write(kind, path), path)
    assert code, f"{path} is no longer refused: take it out of its table"
    assert hint, path
    for command in re.findall(r"jobgen [a-z]+(?: -+[\w-]+)*", hint):
        if command.split()[1] not in PROSE:
            check_command(command)
    if hint.startswith(
        ("jobgen has no such key", "remove it", "keys:", "list all keys", "instead: run ")
    ):
        return
    for other, text, name in obey(kind, path, hint):
        assert ask(other, text, tuple(name.split("."))) == ("", ""), (path, hint, text)


@pytest.mark.parametrize("table", [FOREIGN, NO_SUCH_KEY], ids=["foreign", "none"])
def test_the_hint_of_a_foreign_word_can_be_followed(table: Mapping[tuple[str, ...], str]) -> None:
    for kind, *path in table:
        walk(kind, tuple(path))


@pytest.mark.parametrize("kind", FILES)
def test_the_hint_of_an_option_of_sbatch_can_be_followed(kind: str) -> None:
    for option in sbatch_options().values():
        name = option.name.replace("-", "_")
        if name not in FORMS[kind].keys:
            walk(kind, (name,))


@pytest.mark.parametrize("kind", FILES)
def test_a_key_of_a_section_at_the_top_is_led_home(kind: str) -> None:
    for form in FORMS.values():
        for section in form.keys.values():
            inner = get_form(section)
            for name, key in inner.keys.items() if inner else ():
                if not key.hidden and name not in FORMS[kind].keys:
                    walk(kind, (name,))


def test_a_key_of_the_top_in_a_section_is_led_there() -> None:
    for section, key in JobSpec.keys.items():
        section_of = not key.hidden and key.check.schema.get("type") != "array"
        inner = get_form(key) if section_of else None
        for name, other in JobSpec.keys.items() if inner else ():
            if not other.hidden and name not in inner.keys:  # type: ignore[union-attr]
                walk("job", (section, name))


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("error", "jobgen has no such key; see what every rank printed: jobgen logs ID"),
        ("gradient_checkpointing", "write train: {activation_checkpointing: full}"),
        ("zero_stage", "write train: {strategy: zero2}, or zero1 or zero3, by its stage"),
        ("transformers", "write train: {framework: hf-trainer}"),
        ("per_device_train_batch_size", "write train: {micro_batch: …}"),
        ("slurm_partition", "write slurm: {partition: x}"),
        ("slurm_time", "write time"),
        ("timeout_min", "write time"),
        (
            "learning_rate",
            "jobgen has no such key; pass it to the program, run: train.py --lr 1e-4",
        ),
        ("main_process_port", "jobgen has no such key; jobgen sets up the rendezvous itself"),
        ("accelerators", "write gpus_per_node, per node: divide a total by nodes"),
    ],
)
def test_words_of_other_tools(word: str, hint: str) -> None:
    assert ask("job", write("job", (word,)), (word,))[1] == hint


def test_a_batch_size_is_told_apart() -> None:
    _, hint = ask("job", write("job", ("batch_size",)), ("batch_size",))
    assert hint.startswith("write train: {micro_batch: …}")
    assert "global_batch" in hint


def test_a_word_inside_train_is_led_to_its_neighbour() -> None:
    assert ask("job", write("job", ("train", "batch_size")), ("train", "batch_size"))[1].startswith(
        "write micro_batch"
    )
    hint = ask("job", write("job", ("train", "num_nodes")), ("train", "num_nodes"))[1]
    assert hint == "write nodes at the top of the file"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("image: nvcr.io/nvidia/pytorch:25.09-py3", "container: nvcr.io/nvidia/pytorch:25.09-py3"),
        ("constraint: a100", "slurm: {constraint: a100}"),
        ("constraint: a100&ib", "slurm: {constraint: a100&ib}"),
        ("exclude: n1,n2", "slurm: {exclude: 'n1,n2'}"),
        ("partition: gpu", "slurm: {partition: gpu}"),
        ("slurm_partition: gpu", "slurm: {partition: gpu}"),
        ("exclusive: true", "slurm: {exclusive: true}"),
        ("sockets_per_node: 2", "slurm: {sockets-per-node: 2}"),
        ("nodelist: n1", "slurm: {nodelist: n1}"),
        (
            "email: me@x.org",
            "notify: {mail: me@x.org}",
        ),
        ("zero_stage: 3", "train: {strategy: zero3}"),
        ("train: {zero_stage: 1}", "strategy: zero1"),
        ("mixed_precision: fp16", "train: {precision: fp16}"),
        ("tensor_parallel_size: 4", "train: {tp: 4}"),
        ("num_nodes: 4", "nodes: 4"),
        ("gpus: 4", "gpus_per_node: 4, per node: divide a total by nodes"),
        ("accelerators: A100:8", "gpus_per_node: 8, per node: divide a total by nodes"),
        ("gres: gpu:a100:4", "gpus_per_node: 4, per node: divide a total by nodes"),
        ("launcher: {nproc_per_node: 4}", "gpus_per_node: 4 at the top of the file"),
        ("timeout_min: 90", "time: 90m"),
        ("walltime: 04:00:00", "time: 04:00:00"),
        ("timeout: 3600", "time"),
        ("mem_gb: 64", "mem: 64G"),
        ("args: --lr 1e-4", "run: train.py --lr 1e-4"),
        ("signal: B:USR1@120", "checkpoint: {signal: USR1, grace: 120s}"),
        ("nccl_debug: WARN", "nccl: {debug: WARN}"),
        ("wrap: LlamaDecoderLayer", "train: {wrap: LlamaDecoderLayer}"),
        ("fabric: roce", "network: {fabric: roce} in the cluster's profile"),
        ("fabric: token ring", "network: {fabric: infiniband} in the cluster's profile"),
    ],
)
def test_a_hint_keeps_the_value_that_was_written(line: str, hint: str) -> None:
    problems = check(add(JOB, line), "job.yaml").problems
    assert [p.hint for p in problems if p.code == "J102"] == [f"write {hint}"]


@pytest.mark.parametrize("value", ["'0 3; rm'", '"a\\nb"', "x" * 80, "a\u00a0b", "{a: 1}", "[1]"])
def test_a_value_that_does_not_fit_is_not_repeated(value: str) -> None:
    assert ask("job", write("job", ("partition",), value), ("partition",))[1] == (
        "write slurm: {partition: …}"
    )


def test_a_secret_is_not_repeated() -> None:
    token = "hf_" + "abcdefghijklmnopqrstuvwxyz01234567"
    problems = check(add(JOB, f"partition: {token}"), "job.yaml").problems
    assert problems
    assert not any(token in problem.hint + problem.message for problem in problems)
