"""Advice: settings that do what they say, and had better not be there."""

from __future__ import annotations

from jobgen.data.env_variables import LAST_READ, release
from jobgen.fabric.variables import legal
from jobgen.fabric.variables.judgement import VariableCase, VariableDiagnostic

_DEBUG = {
    "NCCL_DEBUG": {"INFO", "TRACE", "ABORT"},
    "TORCH_DISTRIBUTED_DEBUG": {"INFO", "DETAIL"},
    "FI_LOG_LEVEL": {"INFO", "DEBUG", "TRACE"},
    "UCX_LOG_LEVEL": {"INFO", "DEBUG", "TRACE", "REQ", "DATA", "ASYNC", "FUNC", "POLL"},
    "TORCH_CPP_LOG_LEVEL": {"INFO"},
    "TORCH_LOGS": set(),
    "NCCL_CHECK_MODE": {"DEBUG_LOCAL", "DEBUG_GLOBAL"},
    "NCCL_CHECK_POINTERS": {"1"},
    "NCCL_LAUNCH_MODE": {"GROUP"},
    "SHARP_COLL_LOG_LEVEL": {"3", "4", "5", "6"},
}
"""Name → values with which it is a switch for finding faults."""
_OFF = frozenset({"", "0", "OFF", "NO", "N", "FALSE", "NONE"})
_PRINTS, _SLOWS = "verbose output", "slows down every step"
_STACK = "collects a C++ stack trace at every collective"
_COST = {
    "CUDA_LAUNCH_BLOCKING": _SLOWS,
    "FI_LOG_LEVEL": _PRINTS,
    "NCCL_CHECK_MODE": _SLOWS,
    "NCCL_CHECK_POINTERS": _SLOWS,
    "NCCL_DEBUG": _PRINTS,
    "NCCL_LAUNCH_MODE": _SLOWS,
    "SHARP_COLL_LOG_LEVEL": _PRINTS,
    "TORCH_CPP_LOG_LEVEL": _PRINTS,
    "TORCH_DISTRIBUTED_DEBUG": _PRINTS,
    "TORCH_FR_CPP_STACK": _STACK,
    "TORCH_LOGS": _PRINTS,
    "TORCH_NCCL_BLOCKING_WAIT": _SLOWS,
    "TORCH_NCCL_DESYNC_DEBUG": "times every collective",
    "TORCH_NCCL_ENABLE_TIMING": "times every collective; its events can hang the watchdog",
    "TORCH_NCCL_NAN_CHECK": "reads every tensor once more before sending it",
    "TORCH_NCCL_TRACE_CPP_STACK": _STACK,
    "UCX_LOG_LEVEL": _PRINTS,
}
"""Name → what the switch does to a run; of others, the catalogue's meaning is shown."""
_FORCED = frozenset({"NCCL_ALGO", "NCCL_PROTO"})
_PINNED = frozenset({"tcpx", "tcpxo", "gib"})
"""Networks whose maker fixes NCCL's tuning himself."""


def check_debugging(case: VariableCase) -> VariableDiagnostic | None:
    """A switch for finding faults that was left on."""
    if case.value is None:
        return None
    levels = _DEBUG.get(case.name)
    if levels is not None:
        on = case.text.upper() in levels
    else:
        on = case.row is not None and case.row.use == "debug"
        on = on and case.text.upper() not in _OFF
    if not on:
        return None
    message = f"{case.format_assignment} is for debugging: {_cost(case)}"
    return VariableDiagnostic("J308", message, "remove it when you have found the problem", "note")


def _cost(case: VariableCase) -> str:
    if case.text.upper() == "DETAIL":  # PyTorch compares every collective between all ranks
        return _SLOWS
    meaning = case.row.meaning if case.row else ""
    return _COST.get(case.name) or meaning


def check_forced(case: VariableCase) -> VariableDiagnostic | None:
    """Algorithms and protocols chosen by hand, which NCCL chooses by size and topology."""
    if case.name not in _FORCED or case.value is None or case.context.fabric in _PINNED:
        return None
    plug_in = case.context.versions.get("ofi_nccl", "")
    if case.context.fabric == "efa" and plug_in and release(plug_in) < (1, 6):
        return None  # over EFA, only the simple protocol worked then
    if "LL128" in case.text.upper().lstrip("^").split(",") and not case.text.startswith("^"):
        only = case.text.upper() == "LL128"
        written = case.format_assignment
        message = f"{written}: LL128 corrupts data on hardware that does not preserve write order"
        return VariableDiagnostic("J315", message, "remove it", "warning" if only else "note")
    message = f"{case.format_assignment} overrides NCCL's choice for all message sizes"
    return VariableDiagnostic(
        "J315", message, "remove it, or add a comment with what you measured", "note"
    )


def check_gid(case: VariableCase) -> VariableDiagnostic | None:
    """A fixed entry of the GID table, which NCCL finds itself since 2.21."""
    if case.name != "NCCL_IB_GID_INDEX" or not case.text.isdecimal():
        return None
    _, installed = case.find_release()
    if installed and release(installed) < (2, 21):
        return None
    message = f"{case.name} is unnecessary: NCCL 2.21 and later finds the RoCE v2 entry itself"
    return VariableDiagnostic(
        "J310", message, "remove it: a wrong index fails with ibv_modify_qp", "note"
    )


def check_default(case: VariableCase) -> VariableDiagnostic | None:
    """A value that holds anyway."""
    row = case.row
    if row is None or not case.text or row.owner not in {"nccl", "pytorch", "aws-ofi-nccl"}:
        return None
    usual = legal.format_default(row)
    if not usual or case.text.upper() != usual.upper() or row.type in {"path", "str", "addr"}:
        return None
    program, installed = case.find_release()
    if program == "nccl" and installed and release(installed) < (2, 23):
        return None  # the table's defaults are those of the last release
    since = f" (NCCL {LAST_READ})" if row.owner == "nccl" else ""
    return VariableDiagnostic(
        "J313", f"{case.format_assignment} is the default{since}", "remove it", "note"
    )


def check_tuning(case: VariableCase) -> VariableDiagnostic | None:
    """A knob of tuning, or a way round a fault."""
    row = case.row
    if row is None or row.use != "tuning" or case.name in _FORCED:
        return None
    message = (
        f"{case.name} is a tuning option or workaround, which NCCL's developers advise against"
    )
    return VariableDiagnostic(
        "J315", message, "remove it, or add a comment with what you measured", "note"
    )


def check_internal(case: VariableCase) -> VariableDiagnostic | None:
    """A knob of NCCL's insides, or one that NCCL's documentation calls experimental."""
    row = case.row
    if row is not None and row.use == "experimental":
        message = f"{case.name} is experimental and may change in the next release"
        return VariableDiagnostic("J325", message, "test it with the job's NCCL release", "note")
    if row is None or row.use != "internal":
        return None
    message = f"{case.name} is undocumented and may change in the next release"
    return VariableDiagnostic(
        "J325", message, "remove it, unless the vendor told you to set it", "note"
    )


_LAUNCHERS = {
    "RANK": "set by the launcher for each rank",
    "LOCAL_RANK": "set by the launcher for each rank",
    "GROUP_RANK": "set by the launcher for each rank",
    "WORLD_SIZE": "set by the launcher from the allocation",
    "LOCAL_WORLD_SIZE": "set by the launcher from the allocation",
    "MASTER_ADDR": "set by the rendezvous from the allocation",
    "MASTER_PORT": "set by the rendezvous from the job ID",
}


def check_launchers(case: VariableCase) -> VariableDiagnostic | None:
    """What a launcher sets, set by hand."""
    if case.name.startswith("PET_"):
        message = (
            f"{case.name} overrides torchrun's {_option(case.name)}, which the command line "
            "does not show"
        )
        return VariableDiagnostic("J322", message, "remove it: jobgen sets torchrun's options")
    if case.row is not None and case.row.use == "launcher" and case.name not in _LAUNCHERS:
        message = f"{case.name} is set by the launcher for each rank"
        return VariableDiagnostic("J322", message, "remove it")
    if case.name not in _LAUNCHERS:
        return None
    if case.context.kind == "script":
        return _by_hand(case)
    return VariableDiagnostic("J322", f"{case.name}: {_LAUNCHERS[case.name]}", "remove it")


def _by_hand(case: VariableCase) -> VariableDiagnostic | None:
    """In a script somebody has to set them; what is wrong is a fixed value."""
    text, many = case.text, (case.context.nodes or 1) > 1
    if case.name in {"RANK", "LOCAL_RANK", "GROUP_RANK"} and text.isdecimal():
        message = f"{case.format_assignment} is the same for every rank"
        return VariableDiagnostic(
            "J322", message, "use $SLURM_PROCID and $SLURM_LOCALID inside the step"
        )
    if case.name == "MASTER_ADDR" and text.lower() in {"localhost", "127.0.0.1", "::1"}:
        if not many:
            return None
        return VariableDiagnostic(
            "J322", f"{case.format_assignment} is a different machine on every node", _HEAD
        )
    if case.name == "MASTER_PORT" and text.isdecimal():
        message = f"{case.format_assignment} is the same for all jobs: two jobs on one node collide"
        return VariableDiagnostic(
            "J322", message, "write MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))", "note"
        )
    return None


_HEAD = 'write MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'


def _option(name: str) -> str:
    return "--" + name.removeprefix("PET_").lower().replace("_", "-")
