"""What has been decided, with its why and its place; and checks of it."""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, Literal, TypeVar

from jobgen.errors import Place
from jobgen.named_tuple import NamedTuple

T = TypeVar("T")
NOWHERE = Place("")


def cite_rule(name: str) -> Place:
    """The place of what a rule of jobgen's own decides."""
    return Place(name, kind="rule")


class SelfEvident(StrEnum):
    """Reasons that add nothing to the option itself: its line is shown alone."""

    AS_ASKED = "set in the job"
    CLUSTER_DEFAULT = "cluster default"
    JOB_NAME = "job name"
    TIME_LIMIT = "time limit"
    GPUS = "GPUs per node"
    MEMORY = "memory per node"


class Decision(NamedTuple, Generic[T]):
    """A value, the sentence that says why, and the place that says so.

    ``place`` is a label such as ``job.yaml:12``, ``cluster a100x16:31`` or the name of a rule;
    never an absolute path.
    """

    value: T
    why: str
    place: Place = NOWHERE

    def dump(self) -> dict[str, object]:
        """The decision as JSON has it."""
        return {"value": self.value, "why": self.why, "place": str(self.place)}


class Setting(Decision[str]):
    """A decision whose value is text: a directive, a variable, a line of bash."""

    __slots__ = ()


class PlanCheck(NamedTuple):
    """Something looked at before anything happens: ok, warn or fail, and what was seen."""

    status: Literal["ok", "warn", "fail"]
    message: str
    code: str = "J000"
    hint: str = ""
    place: Place | None = None
    """The line that has to change; None if none is wrong."""
    entry: int = 0
    """Of a race: the entry whose shape it is about."""
