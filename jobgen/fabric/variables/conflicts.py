"""Rules about two variables that do not go together."""

from __future__ import annotations

import re

from jobgen.errors import Severity
from jobgen.fabric.variables.judgement import VariableCase, VariableDiagnostic
from jobgen.named_tuple import NamedTuple


class Conflict(NamedTuple):
    """Two settings that do not go together; said of the first."""

    name: str
    value: str
    """A pattern of values; empty: any."""
    other: str
    theirs: str
    """A pattern of the other's values; empty: any."""
    says: str
    hint: str
    severity: Severity = "warning"


_ON = "1|y|yes|true|on"
PAIRS = (
    Conflict(
        "NCCL_IB_DISABLE",
        "1",
        "NCCL_NET",
        "ib",
        "InfiniBand is required and disabled at once: NCCL fails",
        "remove NCCL_IB_DISABLE; to use TCP on purpose, set only NCCL_NET: Socket",
        "error",
    ),
    Conflict(
        "NCCL_NET_PLUGIN",
        "none",
        "NCCL_NET",
        "(aws )?libfabric|ofi|gib|gpudirecttcpx_v7|fastrak",
        "that network is provided by the plug-in, which must not be loaded: NCCL fails",
        "remove NCCL_NET_PLUGIN",
        "error",
    ),
    Conflict(
        "NCCL_IB_HCA",
        "",
        "NCCL_IB_DISABLE",
        "1",
        "HCAs are selected, but InfiniBand is disabled",
        "remove one of the two",
    ),
    Conflict(
        "NCCL_IB_HCA",
        "",
        "NCCL_NET",
        "socket",
        "HCAs are selected, but NCCL must use TCP",
        "remove one of the two",
    ),
    Conflict(
        "NCCL_P2P_DISABLE",
        "1",
        "NCCL_SHM_DISABLE",
        "1",
        "the GPUs of a node then communicate over the network",
        "remove both",
    ),
    Conflict(
        "NCCL_NVLS_ENABLE",
        "1",
        "NCCL_CUMEM_ENABLE",
        "0",
        "NVLS requires cuMem",
        "remove NCCL_CUMEM_ENABLE",
    ),
    Conflict(
        "NCCL_COLLNET_ENABLE",
        "1",
        "NCCL_NET_PLUGIN",
        "none",
        "SHARP requires a plug-in, but plug-ins are disabled",
        "remove one of the two",
    ),
    Conflict(
        "NCCL_MNNVL_ENABLE",
        "1",
        "NCCL_CUMEM_ENABLE",
        "0",
        "NVLink between nodes requires cuMem",
        "remove NCCL_CUMEM_ENABLE",
    ),
    Conflict(
        "NCCL_IB_GID_INDEX",
        r"\d+",
        "NCCL_IB_ADDR_RANGE",
        "",
        "with a fixed index, the range has no effect",
        "remove NCCL_IB_GID_INDEX",
    ),
    Conflict(
        "NCCL_IB_SPLIT_DATA_ON_QPS",
        "1",
        "NCCL_IB_QPS_PER_CONNECTION",
        "1",
        "with a single queue pair, there is nothing to split",
        "remove NCCL_IB_SPLIT_DATA_ON_QPS",
        "note",
    ),
    Conflict(
        "TORCH_NCCL_BLOCKING_WAIT",
        _ON,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "[1-3]",
        "only one of the two takes effect",
        "remove TORCH_NCCL_BLOCKING_WAIT",
    ),
    Conflict(
        "PYTORCH_CUDA_ALLOC_CONF",
        "",
        "PYTORCH_ALLOC_CONF",
        "",
        "these are two names of one variable",
        "keep PYTORCH_ALLOC_CONF, or the old name for torch before 2.9",
    ),
    Conflict(
        "HIP_VISIBLE_DEVICES",
        "",
        "ROCR_VISIBLE_DEVICES",
        "",
        "the second hides GPUs first, and the first counts only those that remain",
        "keep ROCR_VISIBLE_DEVICES",
    ),
)
_BOUNDS = {
    "NCCL_MIN_CTAS": "NCCL_MAX_CTAS",
    "NCCL_MIN_NCHANNELS": "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_P2P_NCHANNELS": "NCCL_MAX_P2P_NCHANNELS",
}


def check_pair(case: VariableCase) -> VariableDiagnostic | None:
    """Another variable that makes this one wrong, or useless."""
    for row in PAIRS:
        if row.name != case.name or row.other not in case.context.others:
            continue
        theirs = case.get_other(row.other)
        mine = not row.value or re.fullmatch(row.value, case.text, re.IGNORECASE)
        if mine and (not row.theirs or re.fullmatch(row.theirs, theirs, re.IGNORECASE)):
            message = f"{case.format_assignment} and {row.other}={theirs[:60]}: {row.says}"
            return VariableDiagnostic("J317", message, row.hint, row.severity)
    return None


def check_bounds(case: VariableCase) -> VariableDiagnostic | None:
    """A least that is more than the most."""
    most = case.get_other(_BOUNDS.get(case.name, ""))
    if not (most.isdecimal() and case.text.isdecimal()) or int(case.text) <= int(most):
        return None
    message = f"{case.format_assignment} is greater than {_BOUNDS[case.name]}={most}"
    return VariableDiagnostic("J317", message, "remove both: NCCL chooses by itself")


def check_filters(case: VariableCase) -> VariableDiagnostic | None:
    """A filter of log lines that are not printed."""
    if case.name not in {"NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}:
        return None
    if case.context.others.get("NCCL_DEBUG", "") is None:
        return None  # chosen at run time
    level = case.get_other("NCCL_DEBUG").upper()
    if level in {"INFO", "TRACE"} or (level and case.name == "NCCL_DEBUG_FILE"):
        return None
    message = f"{case.name} has no effect without NCCL_DEBUG=INFO"
    return VariableDiagnostic(
        "J317", message, "remove it, or set NCCL_DEBUG: INFO for this run", "note"
    )


def check_interfaces(case: VariableCase) -> VariableDiagnostic | None:
    """NCCL and Gloo on different interfaces."""
    theirs = case.get_other("NCCL_SOCKET_IFNAME")
    if case.name != "GLOO_SOCKET_IFNAME" or not case.text or not theirs or theirs[0] == "^":
        return None
    names = theirs.lstrip("=").split(",")
    if any(mine.startswith(name) for mine in case.text.lstrip("=").split(",") for name in names):
        return None
    message = (
        f"{case.format_assignment} and NCCL_SOCKET_IFNAME={theirs[:60]} name different interfaces"
    )
    return VariableDiagnostic(
        "J317", message, "use the same interface for both, one that reaches the other nodes", "note"
    )
