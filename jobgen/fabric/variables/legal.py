"""What a variable may hold, as far as its row of the catalogue says it so that it can be read."""

from __future__ import annotations

import re

from jobgen.data.env_variables import EnvVariable

_INTEGER = re.compile(r"[+-]?(0[xX][0-9a-fA-F]+|\d+)")
_RANGE = re.compile(r"(\d+)-(\d+)\b")
_LEAST = re.compile(r"(>=|>)\s*(-?\d+)")
_NUMBERS = re.compile(r"(?<![\w.-])-?\d+(?![\w.-])")
_LEVELS = {"LOC", "NVL", "PIX", "PXB", "PHB", "SYS"}
_FRACTIONS = frozenset({"NCCL_RAS_TIMEOUT_FACTOR"})
_LATER = {"NCCL_DEBUG": ["ATTN"]}
"""Values that came after the table (NCCL 2.32)."""
_ALGORITHMS = {"ring", "tree", "collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"}
_PROTOCOLS = {"ll", "ll128", "simple"}
_DEFAULT = re.compile(
    r"(?:auto \((-\d+)\)|(-?\d+|[A-Z][A-Z_]{2,})(?=$| ))(?!.*\b(?:before|since|in|on|by|or)\b)"
)


def find_complaint(row: EnvVariable, value: str) -> tuple[str, str]:
    """(what is wrong with the value, what is right); two empty texts where nothing is."""
    special = _SPECIAL.get(row.name)
    if special is not None:
        return special(row, value)
    named = _NAMED.get(row.name)
    if named is not None:
        return _listed(value, *named)
    if row.owner == "pytorch":
        return _torch(row, value)
    if row.owner not in {"nccl", "rccl"}:
        return "", ""
    if row.type in {"bool", "int", "bytes"}:
        return _number(row, value)
    return _word(row, value) if row.type == "enum" else ("", "")


def format_default(row: EnvVariable) -> str:
    """The default as it would be written down; empty where it is none, or made at run time."""
    found = _DEFAULT.match(row.default)
    return found.group(1) or found.group(2) if found else ""


def _number(row: EnvVariable, value: str) -> tuple[str, str]:
    right = f"{row.name} accepts {row.values}"
    if _INTEGER.fullmatch(value):
        hexadecimal = value.lower().lstrip("+-").startswith("0x")
        return _bounded(row, int(value, 0) if hexadecimal else int(value, 10)), right
    if row.name in _FRACTIONS and re.fullmatch(r"\d*\.\d+", value):
        return "", ""
    # strtoll, of which NCCL drops what stands behind the number
    digits = re.match(r"\s*([+-]?\d+)", value)
    return f"is not a number: NCCL reads it as {(digits.group(1) if digits else 0)}", right


def _bounded(row: EnvVariable, number: int) -> str:
    """What is wrong with a number; empty where nothing is."""
    if number < 0 and str(number) in row.values + row.default:
        return ""
    special = {int(n) for n in _NUMBERS.findall(row.values + " " + row.default)}
    span, least = _RANGE.match(row.values), _LEAST.match(row.values)
    if row.values.startswith("0/1"):
        return "" if number in special | {0, 1} else "is neither 0 nor 1"
    if span and not int(span.group(1)) <= number <= int(span.group(2)) and number not in special:
        return "is out of range"
    if least and number < int(least.group(2)) + (least.group(1) == ">"):
        return "is too small"
    return ""


_YES_NO = frozenset({"y", "yes", "1", "t", "true", "n", "no", "0", "f", "false"})
_OPTION = r"\w+:(\[[^]]*\]|[^,\[\]]+)"


def _torch(row: EnvVariable, value: str) -> tuple[str, str]:
    """PyTorch stops at a value that it cannot read (torch/csrc/distributed/c10d/Utils.hpp)."""
    if row.name in {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}:
        known = re.fullmatch(rf"{_OPTION}(,{_OPTION})*,?", "".join(value.split()))
        return ("", "") if known else ("is not a list of option:value", "expandable_segments:True")
    if not row.name.startswith("TORCH_NCCL_"):
        return "", ""
    if row.type == "bool" and value.lower() not in _YES_NO:
        return "is not a boolean, and PyTorch fails", f"{row.name} accepts 0 or 1"
    if row.type == "int" and not re.match(r"[+-]?\d", value):
        return "is not a number, and PyTorch fails", f"{row.name} accepts {row.values}"
    if row.name == "TORCH_NCCL_ASYNC_ERROR_HANDLING" and value not in {"0", "1", "2", "3"}:
        return "is not a valid value", f"{row.name} accepts {row.values}"
    return "", ""


def _word(row: EnvVariable, value: str) -> tuple[str, str]:
    """One of a list such as ``VERSION,WARN,INFO``, in either case."""
    listed = row.values.partition(";")[0].partition(" (")[0]
    words = [w.strip().split(" ")[0] for w in listed.split(",")]
    plain = all(re.fullmatch(r"[A-Z][A-Z0-9_]*|-?\d+", w) for w in words)
    older = re.search(r"\(legacy ([\d/]+)\)", row.values)
    words += [*_LATER.get(row.name, []), *(older.group(1).split("/") if older else [])]
    if not plain or len(words) < 2 or value.upper() in words or value in row.default:
        return "", ""
    if "|" in value or ":" in value:
        return "", ""
    return "is not a valid value", f"{row.name} accepts {row.values}"


def _listed(value: str, kind: str, words: frozenset[str]) -> tuple[str, str]:
    """A list, perhaps negated, perhaps for each collective: ``allreduce:ring;broadcast:tree``."""
    if kind == "distance" and value.isdecimal():
        return "", ""  # the numbers of old releases; all from 4 on are SYS
    for part in value.split(";"):
        text = part.rpartition(":")[2].strip().lstrip("^")
        for word in text.split(","):
            if word.strip().lower() not in words:
                return (
                    f"has an unknown {kind}: '{word.strip()}'",
                    f"one of {', '.join(sorted(words))}",
                )
    return "", ""


def _parts(row: EnvVariable, value: str) -> tuple[str, str]:
    words = row.values.partition(";")[0].lower().split(",")
    return _listed(value, "subsystem", frozenset(words))


def _addresses(row: EnvVariable, value: str) -> tuple[str, str]:
    if re.match(r"[\da-fA-F.:]+/\d", value):
        return "", ""
    return "is not an address range, and is ignored", f"{row.name} accepts, for example, 10.0.0.0/8"


def _net(row: EnvVariable, value: str) -> tuple[str, str]:
    right = _NETS.get(value.lower())
    if right is None:
        return "", ""
    return "is not a valid NCCL network: NCCL fails", f"write {row.name}={right}"


_NETS = {
    "infiniband": "IB",
    "roce": "IB",
    "rdma": "IB",
    "verbs": "IB",
    "tcp": "Socket",
    "ethernet": "Socket",
    "efa": "AWS Libfabric",
}
"""What is written for NCCL_NET → what NCCL calls it."""
_NAMED = {
    "NCCL_ALGO": ("algorithm", frozenset(_ALGORITHMS)),
    "NCCL_PROTO": ("protocol", frozenset(_PROTOCOLS)),
    "NCCL_NET_GDR_LEVEL": ("distance", frozenset(w.lower() for w in _LEVELS)),
    "NCCL_P2P_LEVEL": ("distance", frozenset(w.lower() for w in _LEVELS)),
    "TORCH_DISTRIBUTED_DEBUG": ("level", frozenset({"off", "info", "detail"})),
    "TORCH_CPP_LOG_LEVEL": ("level", frozenset({"info", "warning", "error", "fatal"})),
    "FI_LOG_LEVEL": ("level", frozenset({"warn", "trace", "info", "debug"})),
    "OFI_NCCL_PROTOCOL": ("protocol", frozenset({"sendrecv", "rdma"})),
    "CUDA_DEVICE_ORDER": ("order", frozenset({"fastest_first", "pci_bus_id"})),
}
"""Name → what its words are called, and which there are."""
_SPECIAL = {
    "NCCL_DEBUG_SUBSYS": _parts,
    "NCCL_IB_ADDR_RANGE": _addresses,
    "NCCL_NET": _net,
}
"""Name → what reads its values, where the kind of its row does not say it."""
