"""Where compilers keep their caches: on the node, for this job, or where the user has them.

In a shared home ranks race for them (deepspeedai/DeepSpeed, issue 5205), and torch waits forever
for a lock that a killed rank left. Read: torch 2.13, utils/file_baton.py, utils/cpp_extension.py,
_inductor/runtime/cache_dir_utils.py; MIOpen's two names: ROCm/MIOpen, issue 3322.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from jobgen.errors import Place
from jobgen.model.components import choose_starter, count_tasks
from jobgen.model.decision import SelfEvident, Setting, cite_rule
from jobgen.model.launchers import name_starter
from jobgen.model.part_plans import CachesPlan
from jobgen.model.plan import Shape
from jobgen.named_tuple import NamedTuple
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.shape import Sized
from jobgen.shell import Raw, Word

_FOLDERS = {
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TORCH_EXTENSIONS_DIR": "extensions",
}
_AMD = {"MIOPEN_USER_DB_PATH": "miopen", "MIOPEN_CUSTOM_CACHE_DIR": "miopen"}
_INDENT = Raw("       ")
_GONE_BY_ITSELF = ("docker", "pyxis")
"""Runtimes whose containers have a /tmp of their own."""


class Software(NamedTuple):
    """What decides whether one start of a job can use what another one compiled."""

    runtime: str
    image: str
    setup: tuple[Setting, ...]

    @property
    def digest(self) -> str:
        """A short name of this software: what is compiled under another cannot be used."""
        lines = (self.runtime, self.image, *(line.value for line in self.setup))
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:8]


def plan_caches(
    look: Inputs, shape: Shape, env: Mapping[str, Setting], software: Software, sized: Sized
) -> CachesPlan | None:
    """The folders of a job with GPUs, but for those that somebody names; None: the user's own."""
    kind, why, place = _decided(look, shape)
    if not shape.gpus_per_node:
        return None
    sized.decide("caches", kind, why, place)
    if kind == "keep":
        return None
    folders = _FOLDERS | (_AMD if shape.amd else {})
    return CachesPlan(
        digest=software.digest,
        variables={name: folder for name, folder in folders.items() if name not in env},
        remove=() if software.runtime in _GONE_BY_ITSELF else _remove(shape.allocated),
    )


def _decided(look: Inputs, shape: Shape) -> tuple[str, str, Place]:
    if look.job.caches == "keep":
        return "keep", SelfEvident.AS_ASKED, look.cite_job("caches")
    asked = look.job.launcher
    starter = name_starter(asked.type or "", asked.ssh)
    if starter and shape.nodes > 1:
        why = f"with {starter}, no job script runs on the other nodes before the ranks start"
        key = ("launcher",) if starter == asked.type else ("launcher", "ssh")
        return "keep", why, look.cite_job(*key)
    place = look.cite_job("caches") if ("caches",) in look.spec.places else cite_rule("caches")
    return (
        "node",
        "node-local compiler caches: in a shared home directory, ranks race for them",
        place,
    )


def _remove(shape: Shape) -> tuple[tuple[Word, ...], ...]:
    """The step that removes them; a node that is lost must not keep the job."""
    return (
        (
            *("timeout", "60", *choose_starter(shape), "--overlap", "--no-kill", "--wait=0"),
            *("--kill-on-bad-exit=0", *count_tasks(shape)),
            "--ntasks-per-node=1",
        ),
        (
            *(_INDENT, "--mpi=none", "find", Raw('"${TMPDIR:-/tmp}"'), "-maxdepth", "1"),
            *("-user", Raw('"$UID"'), "-name", Raw('"jobgen-$UID-$SLURM_JOB_ID-*"')),
        ),
        (_INDENT, "-exec", "rm", "-rf", Raw("{}"), "+"),
    )
