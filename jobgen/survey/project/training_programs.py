"""The training programs of a folder, the likeliest first, and what each is built on."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping

from jobgen.named_tuple import NamedTuple
from jobgen.survey.project.folder_listing import PLAIN_PATH, FolderListing
from jobgen.survey.project.python_source import PythonFacts, read_python

MOST = 9
"""So many programs are offered."""
_NO_PROGRAM = re.compile(
    r"(?:.*/)?(?:setup|conftest|noxfile|__init__|test_.*|.*_test)\.py|tests?/.*"
)
_USUAL = ("train", "main", "run", "finetune", "pretrain")


class ProgramKind(NamedTuple):
    """What a training program is built on."""

    title: str
    """Behind ``uses``."""
    names: tuple[str, ...]
    """Modules or names that show it."""
    distributed: bool = True
    """Whether it can train on several GPUs."""
    note: str = ""
    """What to do for several nodes, if the program has a say in it."""


KINDS: Mapping[str, ProgramKind] = {
    "lightning": ProgramKind(
        "Lightning",
        ("lightning", "pytorch_lightning"),
        note="Trainer(devices=..., num_nodes=...) must match gpus_per_node and nodes.",
    ),
    "hf-trainer": ProgramKind(
        "Hugging Face Trainer",
        ("transformers.Trainer", "transformers.Seq2SeqTrainer", "transformers.trainer", "trl"),
    ),
    "deepspeed": ProgramKind("DeepSpeed", ("deepspeed",)),
    "accelerate": ProgramKind("Accelerate", ("accelerate",)),
    "megatron": ProgramKind("Megatron", ("megatron",)),
    "torchtitan": ProgramKind("torchtitan", ("torchtitan",)),
    "torch-distributed": ProgramKind(
        "torch.distributed", ("torch.distributed", "torch.nn.parallel.DistributedDataParallel")
    ),
    "torch": ProgramKind("PyTorch on one GPU", ("torch", "torchvision"), distributed=False),
    "python": ProgramKind("no PyTorch", (), distributed=False),
}
"""Kind → how it is recognised; the first that fits is taken."""


class TrainingProgram(NamedTuple):
    """A program that a job may run."""

    path: str
    kind: str
    """A name of ``KINDS``."""
    facts: PythonFacts = PythonFacts()

    @property
    def traits(self) -> ProgramKind:
        """The row of its kind."""
        return KINDS[self.kind]


def find_programs(listing: FolderListing) -> tuple[TrainingProgram, ...]:
    """The files that look like programs, the likeliest first."""
    facts = {path: read_python(text) for path, text in listing.list_texts(".py")}
    imported = {other for path in facts for other in _list_local(path, facts)}
    programs = [
        TrainingProgram(path, _choose_kind(path, facts), own)
        for path, own in facts.items()
        if PLAIN_PATH.fullmatch(path) and not _NO_PROGRAM.fullmatch(path)
    ]
    able = [one for one in programs if _is_program(one, imported)]
    return tuple(sorted(able, key=_rank)[:MOST])


def _is_program(program: TrainingProgram, imported: set[str]) -> bool:
    """Whether it is started by itself: it says so, it is called so, or nothing imports it."""
    if program.facts.guarded or _stem(program.path).startswith(_USUAL):
        return True
    return program.kind != "python" and program.path not in imported


def _rank(program: TrainingProgram) -> tuple[object, ...]:
    stem = _stem(program.path)
    usual = next((i for i, name in enumerate(_USUAL) if stem.startswith(name)), len(_USUAL))
    exact = stem not in _USUAL
    return (program.kind == "python", usual, exact, program.path.count("/"), program.path)


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".py")


def _choose_kind(path: str, facts: Mapping[str, PythonFacts]) -> str:
    """The first kind that the file, or a file that it imports, shows."""
    reached = [facts[each] for each in _reach(path, facts)]
    for name, kind in KINDS.items():
        if any(one.uses(*kind.names) for one in reached):
            return name
    return "python"


def _reach(path: str, facts: Mapping[str, PythonFacts]) -> list[str]:
    """The file and the files of the folder that it imports, directly or not."""
    reached = [path]
    for each in reached:
        reached += [new for new in _list_local(each, facts) if new not in reached]
    return reached


def _list_local(path: str, facts: Mapping[str, PythonFacts]) -> Iterator[str]:
    """The files of the folder that a file imports, each once."""
    found: dict[str, None] = {}
    for name in facts[path].names:
        for other in _list_paths(posixpath.dirname(path), name):
            if other in facts and other != path:
                found[other] = None
    yield from sorted(found)


def _list_paths(folder: str, name: str) -> Iterator[str]:
    """The files that a module of this name may be."""
    dots = len(name) - len(name.lstrip("."))
    starts: tuple[str, ...] = ("", folder, "src")
    if dots:
        starts = (posixpath.normpath(posixpath.join(folder, *[".."] * (dots - 1))),)
    inner = name.lstrip(".").replace(".", "/")
    for start in dict.fromkeys(starts):
        for end in (".py", "/__init__.py", "/__main__.py"):
            yield posixpath.normpath(posixpath.join(start, f"{inner}{end}"))
