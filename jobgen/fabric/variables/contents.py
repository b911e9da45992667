"""Rules about values: lists, prefixes, ranges, sockets, threads."""

from __future__ import annotations

import re
from collections.abc import Callable

from jobgen.errors import Severity
from jobgen.fabric.variables import legal
from jobgen.fabric.variables.judgement import VariableCase, VariableDiagnostic
from jobgen.named_tuple import NamedTuple

_PREFIXED = frozenset({"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"})
"""Lists whose entries are prefixes, unless = stands before the list."""
_EXACT = frozenset(
    {
        "GLOO_SOCKET_IFNAME",
        "TP_SOCKET_IFNAME",
        "NCCL_FASTRAK_IFNAME",
        "NCCL_FASTRAK_CTRL_DEV",
        "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
        "NCCL_GPUDIRECTTCPX_CTRL_DEV",
    }
)
"""Lists of whole names, which know neither ^ nor =."""
_LISTS = _PREFIXED | _EXACT | {"UCX_NET_DEVICES", "CUDA_VISIBLE_DEVICES", "NCCL_DEBUG_SUBSYS"}
_CARD = re.compile(r"(\w+_|bnxt_re|ibp?|roce|rdma)([1-9]\d?)")
_INTERFACE = re.compile(r"(eth|ens|eno|em|ib|ibs|bond|team|hsn)([1-9]\d?)")
_MOST_CARDS = 32
_LIST = 4
"""So many names are a machine's whole list."""
_FORKS = frozenset({"tcpx", "tcpxo", "gib"})
"""Networks whose maker builds NCCL himself, and knows more values of its switches."""


class _List(NamedTuple):
    """A list as it was written."""

    name: str
    text: str
    entries: list[str]


def list_syntax(case: VariableCase) -> VariableDiagnostic | None:
    """A list that its reader takes apart otherwise than it looks."""
    if case.name not in _LISTS or case.value is None:
        return None
    given = _List(case.name, case.value, case.value.lstrip("^=").split(","))
    fault = next((said for test, said in _FAULTS if test(given)), None)
    if fault is None:
        return None
    names = (e.lstrip("^=") for e in re.split(r"[,;\s]+", given.text))
    right = ",".join(dict.fromkeys(name for name in names if name))
    head = re.match(r"[\^=]*", case.text)
    sign = "" if case.name in _EXACT or head is None else "".join(sorted(head.group()[:2])[::-1])
    return VariableDiagnostic(
        "J319", f"{case.format_assignment}: {fault}", f"write {case.name}={sign}{right}"[:300]
    )


_FAULTS: tuple[tuple[Callable[[_List], bool], str], ...] = (
    (
        lambda v: v.name in _EXACT and v.text.strip()[:1] in {"^", "="},
        "^ and = are not supported here, only full names",
    ),
    (
        lambda v: " " in v.text or "\t" in v.text,
        "the blank becomes part of a name",
    ),
    (
        lambda v: ";" in v.text and v.name in _PREFIXED | _EXACT,
        "names are separated by commas, not ;",
    ),
    (
        lambda v: v.name in _PREFIXED and any(e.strip()[:1] in {"=", "^"} for e in v.entries[1:]),
        "write = or ^ once, before the whole list",
    ),
    (lambda v: len(v.entries) > 1 and not all(v.entries), "stray comma"),
    (lambda v: v.text.startswith("=^"), "^ must come before ="),
    (
        lambda v: v.name == "NCCL_IB_HCA" and len(v.entries) > _MOST_CARDS,
        f"NCCL uses at most {_MOST_CARDS} HCAs",
    ),
    (lambda v: len(set(v.entries)) < len(v.entries), "duplicate name"),
)


class _Kind(NamedTuple):
    """Entries of a list that are no names of what it lists."""

    names: frozenset[str]
    entry: str
    """A pattern of such an entry."""
    says: str
    hint: str
    severity: Severity = "warning"


_CARDS = frozenset({"NCCL_IB_HCA"})
_NETS = frozenset({"NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"})
_KINDS = (
    _Kind(
        _CARDS | _NETS,
        r".*[\"'].*",
        "the quotes become part of the name",
        "remove the quotes",
    ),
    _Kind(
        _CARDS,
        r"(bond|hsn|ib)\d+|en[ops]\d\w*",
        "this is an interface name, but NCCL expects an HCA",
        "list HCAs with ibv_devices or ibdev2netdev",
    ),
    _Kind(
        _CARDS,
        r"eth\d+",  # drivers may be told to call their cards so
        "this looks like an interface name, but NCCL expects an HCA",
        "list HCAs with ibv_devices or ibdev2netdev",
        "note",
    ),
    _Kind(
        _NETS,
        r"(mlx\d_|bnxt_re|irdma|ionic_)\w*",
        "this is an HCA, but an interface name is expected",
        "list interfaces with ip -br link or ibdev2netdev",
    ),
    _Kind(
        _NETS,
        r"\d+(\.\d+){3}(/\d+)?",
        "this is an address, but an interface name is expected",
        "list interfaces with ip -br addr",
    ),
    _Kind(
        _CARDS | _NETS,
        r".*[*?\[].*",
        "patterns are not supported",
        "use a prefix such as mlx5_ or eth, or list all names",
    ),
)


def check_kind(case: VariableCase) -> VariableDiagnostic | None:
    """An interface where a card is meant, an address, or a pattern."""
    entries = [e.strip().partition(":")[0] for e in case.text.lstrip("^=").split(",")]
    for kind in _KINDS:
        if case.name in kind.names and any(re.fullmatch(kind.entry, e) for e in entries):
            return VariableDiagnostic(
                "J319", f"{case.format_assignment}: {kind.says}", kind.hint, kind.severity
            )
    return None


def check_ucx_devices(case: VariableCase) -> VariableDiagnostic | None:
    """A card for UCX without its port."""
    if case.name != "UCX_NET_DEVICES" or case.value is None:
        return None
    bare = [d for d in case.text.split(",") if re.fullmatch(r"mlx\d_\d+", d)]
    if not bare:
        return None
    hint = f"write {case.name}={case.text.replace(bare[0], bare[0] + ':1', 1)}"
    return VariableDiagnostic(
        "J319", f"{case.format_assignment}: UCX needs the HCA's port, too", hint
    )


def check_prefix(case: VariableCase) -> VariableDiagnostic | None:
    """A name that is the beginning of other names: mlx5_1 also takes mlx5_10 to mlx5_19."""
    if case.name not in _PREFIXED or not case.text or case.text.lstrip("^").startswith("="):
        return None
    entries = [e.partition(":")[0] for e in case.text.lstrip("^").split(",")]
    shape = _CARD if case.name == "NCCL_IB_HCA" else _INTERFACE
    # those of one digit first
    traps = sorted((e for e in entries if shape.fullmatch(e)), key=lambda e: e[-2:].isdecimal())
    caught = next(((e, taken) for e in traps if (taken := _taken(e, entries))), None)
    if caught is None:
        return None
    sign = "^=" if case.text.startswith("^") else "="
    short, taken = caught
    message = f"{case.format_assignment}: names are prefixes, so {short} also matches {taken}"
    hint = f"set it to '{sign}{case.text.lstrip('^')}' to match names exactly"
    # machines with ten cards of a kind are usual, with twenty rare
    rare = short[-2:].isdecimal() or "bond" in short
    rare = rare or (len(entries) >= _LIST and not short.endswith("1"))
    mild = case.name != "NCCL_IB_HCA" or rare or _all_cards(entries)
    return VariableDiagnostic("J318", message, hint, "note" if mild else "warning")


def _taken(short: str, entries: list[str]) -> str:
    """A name that begins like this one and that nobody asked for; empty where there is none."""
    longer = [f"{short}{digit}" for digit in range(10)]
    return next((name for name in longer if name not in entries), "")


def _all_cards(entries: list[str]) -> bool:
    """Whether these look like all cards of a machine, in which case no other one is caught."""
    numbers = sorted(int(m.group()) for e in entries if (m := re.search(r"\d+$", e)))
    return len(numbers) >= _LIST and numbers == list(range(len(numbers)))


_RCCL = frozenset({"NCCL_DEBUG", "NCCL_ALGO", "NCCL_PROTO"}) | {
    f"NCCL_{end}_{what}"
    for end in ("MIN", "MAX")
    for what in ("NCHANNELS", "CTAS", "P2P_NCHANNELS")
}
"""Variables of which RCCL takes more values: it has 112 channels and more (ROCm's documents)."""


def check_value(case: VariableCase) -> VariableDiagnostic | None:
    """A value that its reader does not know."""
    if case.row is None or not case.text:
        return None
    if case.context.maker == "amd" and case.name in _RCCL:
        return None
    wrong, right = legal.find_complaint(case.row, case.text)
    if not wrong:
        return None
    # a word that the reader ignores leaves the default; a log level harms nobody, but with an
    # unknown NCCL_DEBUG, NCCL logs nothing, not even its warnings (debug.cc, ncclDebugInit)
    logs = case.row.category == "logging" or case.name == "FI_LOG_LEVEL"
    first = case.text.partition(",")[0]  # Google's documents write WARN,VERSION
    mild = logs and not (case.name == "NCCL_DEBUG" and legal.find_complaint(case.row, first)[0])
    mild = mild or (case.row.type == "bool" and case.context.fabric in _FORKS)
    return VariableDiagnostic(
        "J320", f"{case.format_assignment} {wrong}", right, "note" if mild else "warning"
    )


def check_port(case: VariableCase) -> VariableDiagnostic | None:
    """A port that nobody can listen on."""
    if case.name not in {"MASTER_PORT", "TORCHELASTIC_HEALTH_CHECK_PORT"} or not case.text:
        return None
    if case.text.isdecimal() and 1 <= int(case.text) <= 65535:
        return None
    return VariableDiagnostic(
        "J320", f"{case.format_assignment} is not a valid port", "a number from 1024 to 65535"
    )


_MOST_SOCKETS = 64


def check_sockets(case: VariableCase) -> VariableDiagnostic | None:
    """More sockets for a connection than NCCL opens."""
    names = ("NCCL_NSOCKS_PERTHREAD", "NCCL_SOCKET_NTHREADS")
    if case.name not in names or not case.text.isdecimal():
        return None
    other = case.get_other(names[1] if case.name == names[0] else names[0])
    product = int(case.text) * (int(other) if other.isdecimal() else 1)
    # said once: where both are set, of the first
    if product <= _MOST_SOCKETS or (other.isdecimal() and case.name == names[1]):
        return None
    message = f"{names[1]} times {names[0]} is {product}, but NCCL allows at most {_MOST_SOCKETS}"
    return VariableDiagnostic("J321", message, f"write {names[1]}=4 and {names[0]}=4")


_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def check_threads(case: VariableCase) -> VariableDiagnostic | None:
    """Threads that are none, or more than there are CPUs for."""
    if case.name not in _THREADS or not case.text:
        return None
    first = case.text.split(",")[0].strip()
    if not first.isdecimal() or int(first) < 1:
        return VariableDiagnostic(
            "J323",
            f"{case.format_assignment} is not a valid number of threads",
            "use the CPUs per rank",
        )
    cpus, ranks = case.context.cpus, case.context.ranks or 1
    if cpus is None or int(first) * ranks <= cpus:
        return None
    message = f"{case.format_assignment}: {ranks} ranks start {int(first) * ranks} threads per node"
    return VariableDiagnostic(
        "J323", f"{message} on {cpus} CPUs", f"at most {max(1, cpus // ranks)}"
    )
