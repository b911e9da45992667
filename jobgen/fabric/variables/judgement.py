"""What the judge is given, and what it says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from jobgen.data.env_variables import EnvVariable
from jobgen.errors import Severity
from jobgen.named_tuple import NamedTuple

_LONGEST = 2000
"""Python neither reads nor writes a number of more than 4300 digits; here two are multiplied."""


class Context(NamedTuple):
    """Where a variable stands, as far as it is known. What is empty or None is not known."""

    kind: Literal["job", "cluster", "script"] = "job"
    """The file it stands in. ``cluster`` states facts of a site, so it gets no advice."""
    setup: bool = False
    """Whether it is exported by a line of shell, and not listed under env."""
    fabric: str = ""
    """As in the profile: infiniband, roce, ethernet, efa, slingshot, tcpx, tcpxo, gib, none."""
    nodes: int | None = None
    """Nodes of the job."""
    simulated: bool = False
    """Whether the nodes are simulated on one machine, which share its loopback."""
    maker: Literal["", "nvidia", "amd"] = ""
    """Who made the GPUs."""
    intra: str = ""
    """What joins the GPUs of a node: nvswitch, nvlink, infinity-fabric, pcie."""
    gpus: int | None = None
    """GPUs of each node that the job uses."""
    cpus: int | None = None
    """CPUs of each node."""
    ranks: int | None = None
    """Ranks on each node."""
    versions: Mapping[str, str] = MappingProxyType({})
    """nccl, rccl, torch, libfabric, ofi_nccl → release."""
    defaults: Mapping[str, str] = MappingProxyType({})
    """What jobgen sets for this network and these nodes."""
    others: Mapping[str, str | None] = MappingProxyType({})
    """Every variable that the ranks will find, this one too; None is a value made at run time."""


class VariableDiagnostic(NamedTuple):
    """One thing to say of a variable."""

    code: str
    message: str
    hint: str = ""
    severity: Severity = "warning"
    about_name: bool = False
    """Whether the name is wrong, not the value."""


class VariableCase(NamedTuple):
    """A variable under judgement."""

    name: str
    value: str | None
    """None where only the run knows it."""
    row: EnvVariable | None
    """Its row of the catalogue."""
    context: Context

    @property
    def text(self) -> str:
        """The value without blanks around it, shortened; empty where it is not known."""
        return (self.value or "").strip()[:_LONGEST]

    @property
    def format_assignment(self) -> str:
        """``NAME=VALUE``, shortened."""
        text = self.value or ""
        return f"{self.name}={text if len(text) <= 60 else text[:59] + '…'}"

    @property
    def on(self) -> bool:
        """Whether it is a switch that is on."""
        return self.text.upper() in {"1", "Y", "YES", "T", "TRUE", "ON"}

    def get_other(self, name: str) -> str:
        """What another variable is set to, shortened; empty where it is not set or not known."""
        return (self.context.others.get(name) or "").strip()[:_LONGEST]

    def find_release(self) -> tuple[str, str]:
        """(the program that reads it, its release there): the release is empty if not known."""
        owner = self.row.owner if self.row else ""
        program = PROGRAMS.get(owner, "")
        if program == "nccl" and self.context.maker == "amd":
            program = "rccl"
        return program, self.context.versions.get(program, "")


PROGRAMS = {
    "nccl": "nccl",
    "rccl": "rccl",
    "pytorch": "torch",
    "libfabric": "libfabric",
    "aws-ofi-nccl": "ofi_nccl",
}
"""Owner of a variable → the key of ``versions`` that says which release is installed."""
