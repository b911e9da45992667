"""Who takes part in a measurement, and by which library they talk."""

from __future__ import annotations

import re
import socket
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

_TOLD = re.compile(r"NET/|Using network|\bvia |NVLS|GDRDMA|NCCL version|P2P is disabled")
_MOST = 60


class ProcessGroup(NamedTuple):
    """Who takes part."""

    torch: Any
    rank: int
    size: int
    local: int
    device: Any
    backend: str
    hosts: tuple[str, ...]
    """Of each rank."""
    log: Path | None = None
    """NCCL's own words, of rank 0."""

    @property
    def nodes(self) -> dict[str, list[int]]:
        """Node → its ranks, in the order of their first ranks."""
        found: dict[str, list[int]] = {}
        for rank, host in enumerate(self.hosts):
            found.setdefault(host, []).append(rank)
        return found


def backend(devices: int, ranks: int, *, nccl: bool) -> str:
    """``nccl`` where each rank of the node has a GPU and torch has NCCL or RCCL, else ``gloo``."""
    return "nccl" if nccl and devices >= ranks > 0 else "gloo"


def read_network_lines(text: str) -> list[str]:
    """What NCCL said of networks and paths, each once, without who said it."""
    found: dict[str, None] = {}
    for line in text.split("\n"):
        said = line.partition("NCCL INFO ")[2] or line
        if _TOLD.search(said):
            found[said.strip()[:200]] = None
    return list(found)[:_MOST]


def join(torch: Any, environ: dict[str, str]) -> ProcessGroup:
    """Meet the others."""
    dist = torch.distributed
    rank, size = int(environ.get("RANK", "0")), int(environ.get("WORLD_SIZE", "1"))
    local, there = int(environ.get("LOCAL_RANK", "0")), int(environ.get("LOCAL_WORLD_SIZE", "1"))
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    chosen = backend(gpus, there, nccl=dist.is_nccl_available())
    device, log = torch.device("cpu"), None
    if chosen == "nccl":
        device = torch.device("cuda", local)
        torch.cuda.set_device(device)
        if rank == 0:
            log = Path(tempfile.mkdtemp(prefix="jobgen-bench-")) / "nccl.log"
            environ.update(NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,NET,P2P")
            environ["NCCL_DEBUG_FILE"] = str(log)
    else:
        torch.set_num_threads(1)
    if "RANK" in environ:
        dist.init_process_group(chosen)
    else:
        dist.init_process_group(chosen, store=dist.HashStore(), rank=0, world_size=1)
    hosts: list[Any] = [None] * size
    name = environ.get("SLURMD_NODENAME") or socket.gethostname().partition(".")[0]
    dist.all_gather_object(hosts, name)
    return ProcessGroup(torch, rank, size, local, device, chosen, tuple(hosts), log)


def about(world: ProcessGroup) -> dict[str, Any]:
    """What was measured on."""
    torch = world.torch
    gpu = world.device.type == "cuda"
    version = ".".join(map(str, torch.cuda.nccl.version())) if gpu else None
    return {
        "kind": "world",
        "ranks": world.size,
        "nodes": len(world.nodes),
        "hosts": list(world.nodes),
        "backend": world.backend,
        "device": torch.cuda.get_device_name(world.device) if gpu else "cpu",
        "torch": str(torch.__version__),
        "nccl": version,
        "dtype": "float32",
    }
