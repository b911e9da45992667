"""What a node told of its GPUs and its network → the lines of a profile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from jobgen.named_tuple import NamedTuple
from jobgen.shell import Result
from jobgen.survey.catalogued import find_product
from jobgen.survey.draft import Gap, ProfileLine, join_names
from jobgen.survey.hardware import efa, ibstat, ibv_devinfo, ip, lscpu, query, topo, topology
from jobgen.survey.hardware import system_info as short
from jobgen.survey.hardware.ports import Port, parse_state
from jobgen.survey.hardware.text import clean_lines, parse_first_number, parse_integer

FIELDS = ("name", "memory.total", "driver_version")
"""What nvidia-smi is asked for each GPU."""
_EFA = re.compile(r"efa_\d{1,4}|rdmap\d{1,4}s\d{1,4}", re.ASCII)
"""Names of EFA devices: the driver's own, and those that rdma-core's udev rule makes of them."""
_FEW = 65_536
"""KiB of locked memory that are few: RDMA pins all that it sends."""


class Probe(NamedTuple):
    """A node's answers."""

    node: str
    answers: Mapping[str, Result]
    """By the keys of the probe script; a tool that is not there has code 127."""
    texts: Mapping[str, str]
    speeds: Mapping[str, int]
    """Interface → Mbit/s of its link."""

    def get_text(self, key: str) -> str:
        """What a tool printed; empty where it failed."""
        result = self.answers.get(key, Result(127))
        return result.text if result.code == 0 else ""

    def explain_failure(self, key: str, tool: str) -> str:
        """Why a tool said nothing."""
        result = self.answers.get(key, Result(127))
        if result.code == 127:
            return f"{tool} is not on {self.node}"
        said = next((line for line in clean_lines(result.text) if line.strip()), "")
        return f"{tool} on {self.node} ended with {result.code}: {said[:120]}"


def probe(frames: Sequence[tuple[str, str]]) -> Probe | None:
    """The frames of the probe script; None where they do not come to its end."""
    words = {key: text for key, text in frames if "." not in key}
    if "end" not in words:
        return None
    outs = {key.removesuffix(".out"): text for key, text in frames if key.endswith(".out")}
    codes = {key.removesuffix(".code"): text for key, text in frames if key.endswith(".code")}
    answers = {
        key: Result(
            255 if (code := parse_integer(codes.get(key, ""))) is None else code, out.encode()
        )
        for key, out in outs.items()
    }
    speeds = {}
    for name, mbps in (
        text.split(None, 1) for key, text in frames if key == "speed" and " " in text.strip()
    ):
        if (number := parse_integer(mbps.strip())) is not None:
            speeds[name] = number
    name = words.get("node") or words.get("host", "")
    return Probe(next(clean_lines(name)).strip()[:64] or "the node", answers, words, speeds)


def list_entries(told: Probe, gpus: int) -> Iterator[ProfileLine | Gap]:
    """The lines that a node tells; ``gpus`` is how many Slurm says that it has."""
    yield from _gpus(told, gpus)
    yield from _network(told)
    yield from _internet(told)
    yield from _versions(told)


def list_notes(told: Probe, gpus: int) -> Iterator[str]:
    """What is unusual on the node, in sentences."""
    seen = len(_listed(told))
    if seen and seen != gpus:
        yield f"nvidia-smi on {told.node} shows {seen} GPUs, and Slurm counts {gpus}"
    locked = told.texts.get("memlock", "").strip()
    limit = parse_integer(locked)
    if limit is not None and limit < _FEW and _ports(told):
        yield (
            f"memory that may be locked on {told.node}: {limit} KiB; RDMA needs unlimited "
            "(LimitMEMLOCK of slurmd)"
        )
    shm = [parse_integer(word) for word in told.texts.get("shm", "").split()[:2]]
    if shm and shm[0] is not None and shm[0] < 1 << 20:
        yield f"{told.node} has {shm[0] >> 10} MiB of /dev/shm; NCCL and data loaders need 1 GiB"
    cpus = lscpu.parse(told.get_text("lscpu"))
    if cpus and cpus.model:
        yield (
            f"CPUs of {told.node}: {cpus.model}, {cpus.sockets} sockets, {cpus.cores} cores, "
            f"{len(cpus.numa)} NUMA nodes"
        )


def _listed(told: Probe) -> Sequence[Mapping[str, query.Reading]]:
    return query.parse(told.get_text("gpu"), FIELDS)


def _gpus(told: Probe, gpus: int) -> Iterator[ProfileLine | Gap]:
    rows = _listed(told)
    path = ("nodes", "gpu")
    if not rows:
        if gpus:
            yield Gap(path, told.explain_failure("gpu", "nvidia-smi"))
        return
    name, memory = rows[0]["name"].text, rows[0]["memory.total"].number
    if not gpus:
        yield ProfileLine(("nodes", "gpus_per_node"), len(rows), f"nvidia-smi on {told.node}")
        yield ProfileLine(
            ("gpu_request",), "none", f"nvidia-smi shows GPUs on {told.node}, Slurm has none"
        )
    found = find_product(name, memory)
    how = f"nvidia-smi on {told.node}: {name}, {memory or 0:.0f} MiB"
    if len(found) == 1:
        yield ProfileLine(path, found[0], how)
    else:
        yield Gap(path, how if found else f"{how}, which is not in the catalogue", found)
    yield from _inside(told, len(rows))


def _inside(told: Probe, gpus: int) -> Iterator[ProfileLine | Gap]:
    path = ("nodes", "intra")
    if gpus < 2:
        return
    shape = _topology(told)
    if shape.intra:
        pairs = ", ".join(
            f"{link} in {number} pairs" for link, number in sorted(shape.pairs.items())
        )
        yield ProfileLine(path, shape.intra, f"nvidia-smi topo -m on {told.node}: {pairs}")
    else:
        yield Gap(
            path,
            told.explain_failure("topo", "nvidia-smi topo -m")
            if not told.get_text("topo")
            else f"nvidia-smi topo -m on {told.node} does not tell",
        )


def _topology(told: Probe) -> topology.Topology:
    return topology.explain(topo.parse(told.get_text("topo")), _ports(told)[:256])


def _ports(told: Probe) -> tuple[Port, ...]:
    """The RDMA ports by ibstat, else ibv_devinfo, else /sys."""
    verbs = ibv_devinfo.parse(told.get_text("ibv"))
    transports = {port.device: port.transport for port in verbs}
    for found in (ibstat.parse(told.get_text("ibstat")), verbs):
        if any(port.state for port in found):
            return tuple(p._replace(transport=transports.get(p.device, "")) for p in found)
    return tuple(_in_sys(told.texts.get("rdma", "")))


def _source(told: Probe) -> str:
    if any(port.state for port in ibstat.parse(told.get_text("ibstat"))):
        return "ibstat"
    if any(port.state for port in ibv_devinfo.parse(told.get_text("ibv"))):
        return "ibv_devinfo"
    return "/sys/class/infiniband"


def _in_sys(text: str) -> Iterator[Port]:
    """The lines ``DEVICE PORT|LAYER|STATE|RATE`` of the probe script."""
    for line in clean_lines(text):
        parts = line.split("|")
        name, _, number = parts[0].strip().partition(" ")
        if len(parts) == 4 and re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
            layer, rate = parts[1].strip().lower(), parse_first_number(parts[3].strip())
            yield Port(name, parse_integer(number) or 1, parse_state(parts[2]), layer, rate)


def _network(told: Probe) -> Iterator[ProfileLine | Gap]:
    fabric = _fabric(told)
    yield fabric
    name = str(fabric.value) if isinstance(fabric, ProfileLine) else ""
    yield from _cards(told, name)
    yield from _socket(told, name)


def _fabric(told: Probe) -> ProfileLine | Gap:
    """The network for training traffic, and the evidence."""
    on, path = f"on {told.node}", ("network", "fabric")
    devices, how = _efa(told)
    if devices:
        return ProfileLine(path, "efa", f"{how}: {join_names(devices)}")
    if re.search(r"^\s*hsn\d+\b", told.texts.get("links", ""), re.MULTILINE):
        return ProfileLine(path, "slingshot", f"interfaces hsn {on}")
    ports = _usable(told)
    active = [port for port in ports if port.state == "active"]
    near = [port for port in active if port.device in _topology(told).compute]
    layers = {port.layer for port in near or active}
    for fabric, layer in _LAYERS.items():
        if layer in layers:
            seen = join_names(p.device for p in active if p.layer == layer)
            return ProfileLine(path, fabric, f"{_source(told)} {on}: link layer {layer} of {seen}")
    why = "no RDMA device that NCCL can use" if _ports(told) else "no RDMA device"
    if ports:
        why = f"no port of {join_names(port.device for port in ports)} is active"
    source = _source(told) if _ports(told) else "/sys/class/infiniband"
    if any(port.infiniband for port in ports):
        return Gap(path, f"{source} {on}: {why}", ("infiniband", "ethernet"))
    return ProfileLine(path, "ethernet", f"{source} {on}: {why}")


def _usable(told: Probe) -> tuple[Port, ...]:
    """The ports of InfiniBand and RoCE, as NCCL's own network has no others: not iWARP, not EFA."""
    kinds = ("", "infiniband")
    return tuple(p for p in _ports(told) if p.transport in kinds and p.layer != "unspecified")


def _efa(told: Probe) -> tuple[tuple[str, ...], str]:
    """The EFA devices and who tells; fi_info is often on the PATH of login shells only."""
    if devices := efa.list_devices(told.get_text("efa")):
        return devices, f"fi_info -p efa on {told.node}"
    other = (p for p in _ports(told) if "unspecified" in (p.transport, p.layer))
    names = dict.fromkeys(p.device for p in other if _EFA.fullmatch(p.device))
    return tuple(names), f"{_source(told)} on {told.node}"


_LAYERS = {"infiniband": "infiniband", "roce": "ethernet"}


def _cards(told: Probe, fabric: str) -> Iterator[ProfileLine | Gap]:
    """How many cards carry the traffic, how fast, and their names."""
    if fabric == "efa":
        devices, how = _efa(told)
        yield ProfileLine(("network", "nics"), len(devices), how)
        return
    if fabric not in _LAYERS:
        return
    ports = [p for p in _usable(told) if p.layer == _LAYERS[fabric] and p.state == "active"]
    near = [d for d in _topology(told).compute if any(p.device == d for p in ports)]
    fastest = max((p.gbps or 0 for p in ports), default=0)
    chosen = near or list(dict.fromkeys(p.device for p in ports if (p.gbps or 0) == fastest))
    left = [d for d in dict.fromkeys(p.device for p in ports) if d not in chosen]
    beside = (
        f"nvidia-smi topo -m on {told.node}: those behind a PCIe switch with a GPU"
        if near
        else (f"{_source(told)}: the fastest active ones; which are near a GPU is not known")
    )
    without = f"; not {join_names(left)}" if left else ""
    yield ProfileLine(("network", "nics"), len(chosen), f"{beside}{without}")
    rates = {p.gbps for p in ports if p.device in chosen and p.gbps}
    if len(rates) == 1 and min(rates).is_integer():
        yield ProfileLine(
            ("network", "nic_gbps"), int(min(rates)), f"{_source(told)} on {told.node}"
        )
    else:
        yield Gap(("network", "nic_gbps"), "the rate is not told, or not the same for all")
    yield ProfileLine(("network", "ib_hca"), ",".join(chosen), f"{beside}{without}")


def _socket(told: Probe, fabric: str) -> Iterator[ProfileLine | Gap]:
    """The interface on which nodes reach each other."""
    path = ("network", "socket_ifname")
    match = re.search(r"\bdev ([A-Za-z0-9_.@-]{1,32})", told.texts.get("route", "")[:4096])
    name = match[1] if match else ""
    if not name or name == "lo":
        up = [i.name for i in ip.parse(told.get_text("ip")) if i.name != "lo" and i.addresses]
        yield Gap(path, f"ip route on {told.node} does not tell", tuple(up[:8]))
        return
    how = f"ip route get, on {told.node} to another node"
    yield ProfileLine(path, name, how)
    if fabric == "ethernet":
        speed = told.speeds.get(name, 0) // 1000
        read = f"/sys/class/net/{name}/speed on {told.node}"
        yield ProfileLine(("network", "nics"), 1, how)
        if speed:
            yield ProfileLine(("network", "nic_gbps"), speed, read)
        else:
            yield Gap(("network", "nic_gbps"), f"{read} does not tell")


def _internet(told: Probe) -> Iterator[ProfileLine]:
    answer = told.texts.get("internet", "").strip()
    if answer:
        host = "no host answered" if answer == "no" else f"{answer[:64]}:443 answers"
        yield ProfileLine(("network", "internet"), answer != "no", f"from {told.node}: {host}")


def _versions(told: Probe) -> Iterator[ProfileLine]:
    rows = _listed(told)
    if rows and (release := short.parse_driver(rows[0]["driver_version"].text)):
        yield ProfileLine(("versions", "driver"), release, f"nvidia-smi on {told.node}")
