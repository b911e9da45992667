"""Rules about names: what nothing reads, what has moved, what is too new or too old."""

from __future__ import annotations

import re

from jobgen.data.env_variables import LAST_READ, catalogue, hearsay, release, wrong
from jobgen.errors import Severity
from jobgen.fabric.variables.judgement import VariableCase, VariableDiagnostic

WHOLE = ("NCCL_", "TORCH_NCCL_", "GLOO_", "TORCHELASTIC_", "RCCL_")
"""Families of which the catalogue holds every name, so that another one is unknown."""
_BUILD = (
    r"NCCL_(TESTS?(_.*)?|.*_?(VERSION|VER|HOME|ROOT|DIR|PREFIX|REPO|BRANCH|IMAGE|CONTAINER|SCRIPT"
    r"|ARGS|EXE|PATH|URL|LOG|LOG_FILE|INCLUDE|LIB|TAG))"
)
"""Names that scripts keep for themselves, such as NCCL_TESTS_DIR."""
_OWN = "NCCL_UCX_"
"""HPC-X: what its plug-in hands to UCX for itself (NVIDIA HPC-X, NCCL-RDMA-SHARP Plugins)."""
_VENDOR = {("NCCL_PLUGIN_PATH", fabric) for fabric in ("tcpx", "tcpxo", "gib")}
"""Names that only a network's own plug-in or container reads."""
_RENAMED = r"renamed|missing prefix"


def check_moved(case: VariableCase) -> VariableDiagnostic | None:
    """A variable of PyTorch under the prefix of NCCL."""
    if not case.name.startswith("NCCL_"):
        return None
    now = f"TORCH_{case.name}"
    said = wrong(case.name)
    if case.name in catalogue() or (said is None and now not in catalogue()):
        return None
    if said is not None and not (re.search(_RENAMED, said.why) or now in said.instead):
        return None
    message = f"{case.name} belongs to PyTorch, not NCCL: since torch 2.2 its name is {now}"
    return VariableDiagnostic("J312", message, f"use {(said.instead if said else now)}")


def check_folklore(case: VariableCase) -> VariableDiagnostic | None:
    """A name or a value that only hearsay knows."""
    if case.context.maker == "amd" and case.name == "NCCL_DEBUG":
        return None  # RCCL knows ERROR and NONE
    said = wrong(case.name, case.text if case.value is not None else None)
    if said is None:
        return None
    shown = case.name if wrong(case.name) else case.format_assignment
    reads = (case.name, case.context.fabric) in _VENDOR
    own = case.name == "NODE_RANK" and case.context.kind == "script"
    harmless = reads or own or said.instead == "none"
    hint = "remove it" if said.instead == "none" else f"use {said.instead}"
    return VariableDiagnostic(
        "J304", f"{shown}: {said.why}", hint, "note" if harmless else "warning"
    )


def check_foreign(case: VariableCase) -> VariableDiagnostic | None:
    """A name of AMD's library that is spelled like NVIDIA's, or on the wrong GPUs."""
    prefix, _, rest = case.name.partition("_")
    if prefix == "RCCL" and case.row is None and f"NCCL_{rest}" in catalogue():
        message = f"nothing reads {case.name}: RCCL uses the NCCL_ names"
        return VariableDiagnostic("J324", message, f"use NCCL_{rest}")
    if case.row is None or case.row.owner not in {"rccl", "rocm"}:
        return None
    if case.context.maker != "nvidia":
        return None
    message = f"{case.name} is for AMD GPUs, but this cluster has NVIDIA GPUs"
    return VariableDiagnostic("J324", message, "remove it", "note")


def check_lower_case(case: VariableCase) -> VariableDiagnostic | None:
    """A known name in small letters."""
    if case.row is not None or case.name.isupper() or case.name.upper() not in catalogue():
        return None
    message = f"nothing reads {case.name}: variable names are case-sensitive"
    return VariableDiagnostic("J303", message, f"did you mean '{case.name.upper()}'?")


def check_unknown(case: VariableCase) -> VariableDiagnostic | None:
    """A name that is in no table, of a family that is known whole."""
    if case.row is not None or not case.name.startswith(WHOLE) or not case.name.isupper():
        return None
    own = re.fullmatch(_BUILD, case.name) is not None
    near = find_nearest(case.name, 0.92 if own else 0.8)
    if (own and not near) or case.name.startswith(_OWN):
        return None
    message, said = f"nothing reads {case.name}", wrong(near)
    if said is not None:
        return VariableDiagnostic("J303", f"{message} or {near}", f"use {said.instead}")
    if near:
        return VariableDiagnostic("J303", message, f"did you mean '{near}'?")
    sure = case.name.startswith(("NCCL_", "TORCH_NCCL_")) and case.context.maker != "amd"
    return VariableDiagnostic("J303", message, _NOWHERE, "warning" if sure else "note")


_NOWHERE = "remove it: it does not exist in any release"


def find_nearest(name: str, share: float = 0.8) -> str:
    """The known name that was probably meant, or the hearsay that is nearer; else empty."""
    from difflib import get_close_matches

    family = name.partition("_")[0]
    names = [n for n in catalogue() if n.startswith(family)]
    found = get_close_matches(name, names, 1, share)
    hearsaid = [n for n, value in hearsay() if not value]
    nearer = get_close_matches(name, [*hearsaid, *found], 1, 0.92)
    return (nearer or found or [""])[0]


def check_obsolete(case: VariableCase) -> VariableDiagnostic | None:
    """A variable that the installed release, or else the current one, no longer reads."""
    row = case.row
    if row is None:
        return None
    if not row.until or not release(row.until):
        return None
    here = release(case.find_release()[1]) or release(LAST_READ)
    if here <= release(row.until):
        return None
    library = "NCCL" if row.owner == "nccl" else row.owner
    message = f"{case.name} has no effect after {library} {row.until}"
    # what went with the last releases is still read by most that are installed
    amd = case.context.maker == "amd"
    lately = row.owner == "nccl" and not case.find_release()[1]
    lately = lately and (amd or release(row.until) >= _LATELY)
    severity: Severity = "note" if lately else "warning"
    return VariableDiagnostic("J310", message, _successor(row.successor), severity)


_LATELY = (2, 29)
"""Of NCCL. What RCCL reads, the table does not say: AMD's documents set what NCCL has dropped."""


def check_needless(case: VariableCase) -> VariableDiagnostic | None:
    """A variable that current releases do without."""
    row = case.row
    if row is None or row.use != "needless":
        return None
    if case.name == "FI_PROVIDER" and case.value is not None and "efa" not in case.text:
        return None  # of another network, whose plug-in may want it
    program, installed = case.find_release()
    if installed and release(installed) < _NEEDLESS.get(program, (0,)):
        return None
    message = f"{case.name} is unnecessary: {row.successor or row.meaning}"
    return VariableDiagnostic("J310", message, "remove it", "note")


_NEEDLESS = {"libfabric": (1, 18)}
"""Program → the release from which its variables marked obsolete are needless."""


def check_too_new(case: VariableCase) -> VariableDiagnostic | None:
    """A variable that the installed release does not know yet."""
    row = case.row
    program, installed = case.find_release()
    if row is None or not installed or row.since.startswith("<"):
        return None
    since = release(row.since)
    if not since or release(installed) >= since:
        return None
    message = f"{case.name} needs {program} {row.since}, but {installed} is installed"
    return VariableDiagnostic("J311", message, "remove it, or update versions in the profile")


def check_deprecated(case: VariableCase) -> VariableDiagnostic | None:
    """A variable that still works, and has a better name."""
    row = case.row
    if row is None or (row.until and row.until != "-"):
        return None
    if row.use == "deprecated" or row.successor.startswith(("deprecated", "renamed")):
        _, installed = case.find_release()
        since = re.search(r"\d+(\.\d+)+", row.successor)
        if installed and since and release(installed) < release(since.group()):
            return None
        said = row.successor or "its developers advise against it"
        return VariableDiagnostic(
            "J314", f"{case.name} is deprecated: {said}", _successor(row.successor), "note"
        )
    return None


def _successor(text: str) -> str:
    """``removed 2.5 -> NCCL_PROTO (debug only)`` as a remedy."""
    _, arrow, new = text.partition("-> ")
    if arrow:
        return f"use {new}"
    return "remove it" if not text or _DROPPED.search(text) else text


_DROPPED = re.compile("no successor|gone")
"""In the tables' column of successors: nothing takes the variable's place."""
