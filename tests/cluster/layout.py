"""Where everything of a test cluster lies, and what its hosts see."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
USER, UID = "tester", 64042
"""The ordinary user that logs in and whose jobs run."""
NETWORK = "198.51.100"
"""A block kept for examples; it exists in the cluster's own network namespaces only."""
DEVICES = Path("/sys/fs/cgroup/devices")
"""Where control groups of devices are, on a machine that has the first version of cgroups."""
MEMORY = Path("/sys/fs/cgroup/memory")
SSH_ALIAS = "testbed"
"""What the client's ssh configuration calls the login host."""


@dataclass(frozen=True)
class Options:
    """How a cluster differs from the usual one."""

    accounting: bool = False
    nodes: int = 4
    gpus: int = 8
    gpu_type: str = "a100"
    gres: tuple[str, ...] = ()
    """The GRES of each node where nodes are not alike: ``gpu:h100:4``, or nothing for none."""
    cpus: int = 64
    memory_mb: int = 512_000
    message_timeout: int = 10
    """Seconds a Slurm command waits for the controller; 5 for the tests of faults."""
    munge_ttl: int | None = None
    """Seconds a credential is good for; 20 for the tests of faults."""
    requeue_wait: int = 120
    """Seconds a requeued job waits as PENDING (BeginTime); Slurm's own default."""
    slurmd_timeout: int = 30
    """Seconds without an answer until a node is down."""
    small_disk: str = "1m"
    """The size of the disk that is there to be filled."""
    task_plugin: str = "task/none"
    """task/affinity binds tasks to CPUs; task/affinity,task/cgroup hides GPUs as well."""
    enforce_memory: bool = False
    """The kernel keeps steps to the memory of their job; with task/cgroup."""
    job_submit: str = ""
    """The body of the function that judges a job before the controller takes it, in Lua."""
    usr: str = ""
    """What the servers have as /usr in place of this machine's: another release of Slurm."""
    conf: tuple[str, ...] = ()
    """More lines for slurm.conf (partitions and nodes of another site, say)."""


@dataclass(frozen=True)
class Layout:
    """The folders and files of one cluster, all below ``root``."""

    root: Path
    options: Options = field(default_factory=Options)

    @property
    def etc(self) -> Path:
        return self.root / "etc"

    @property
    def client_etc(self) -> Path:
        return self.root / "client-etc"

    @property
    def client_home(self) -> Path:
        return self.root / "client"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def scratch(self) -> Path:
        """The shared disk: run directories go here."""
        return self.root / "scratch"

    @property
    def small(self) -> Path:
        """A shared disk of one megabyte."""
        return self.root / "small"

    @property
    def state(self) -> Path:
        return self.root / "state"

    @property
    def dev(self) -> Path:
        return self.root / "dev"

    @property
    def blank(self) -> Path:
        return self.root / "blank"

    @property
    def control(self) -> Path:
        return self.root / "hub.sock"

    @property
    def record(self) -> Path:
        return self.root / "hub.json"

    @property
    def cgroup(self) -> Path | None:
        """The device control group below which the nodes' jobs lie; None where they have none."""
        constrains = "task/cgroup" in self.options.task_plugin
        return DEVICES / self.root.name if constrains else None

    def memory_group(self, node: str) -> Path | None:
        """The memory control group below which the node's jobs lie; None where they have none."""
        return MEMORY / f"{self.root.name}-{node}" if self.options.enforce_memory else None

    @property
    def nodes(self) -> list[str]:
        return [f"n{i}" for i in range(1, self.options.nodes + 1)]

    def gres(self, node: str) -> str:
        """The node's GRES, as slurm.conf says it; empty where it has none."""
        o = self.options
        alike = f"gpu:{o.gpu_type}:{o.gpus}"
        return o.gres[self.nodes.index(node)] if o.gres else alike

    @property
    def servers(self) -> list[str]:
        """The hosts that have daemons: the login host and the compute nodes."""
        return ["login", *self.nodes]

    def address(self, host: str) -> str:
        last = {"client": 2, "login": 3}.get(host) or 10 + int(host[1:])
        return f"{NETWORK}.{last}"

    def kept(self) -> list[str]:
        """What all hosts see at the path it has here: the shared disk and the Python."""
        paths = {self.root, REPOSITORY, Path(sys.prefix), Path(sys.base_prefix)}
        kept: list[str] = []
        for path in sorted(str(p.resolve()) for p in paths):
            if not any(path.startswith(f"{parent}/") for parent in kept):
                kept.append(path)
        return kept

    def covered(self) -> list[str]:
        """Folders that each node has for itself, and those that only root may walk through."""
        own = ("/dev/shm", "/run", "/tmp", "/var/tmp")
        outside = (p for p in self.kept() if not p.startswith(tuple(f"{o}/" for o in own)))
        closed = {str(first) for p in outside if (first := _closed_ancestor(Path(p)))}
        return [*own, *sorted(closed)]

    def hub(self, *, lease: bool) -> dict[str, Any]:
        """The hub's configuration."""
        slurm = [f"/usr/bin/{name}" for name in SLURM_COMMANDS]
        server = {
            "etc": str(self.etc),
            "usr": self.options.usr,
            "cover": self.covered(),
            "keep": self.kept(),
            "mask": [],
            "blank": str(self.blank),
            "own_processes": True,
        }
        client = {
            **server,
            "etc": str(self.client_etc),
            "usr": "",
            "cover": [],
            "mask": slurm,
            "own_processes": False,
        }
        hosts = [
            {"name": name, "address": self.address(name), **kind}
            for name, kind in [("client", client), *((n, server) for n in self.servers)]
        ]
        return {
            "control": str(self.control),
            "lease": lease,
            "tmpfs": {str(self.small): self.options.small_disk},
            "hosts": hosts,
        }


SLURM_COMMANDS = (
    *("sbatch", "srun", "salloc", "squeue", "scancel", "scontrol", "sacct", "sacctmgr", "sinfo"),
    *("sprio", "sstat", "sdiag", "sshare", "sreport", "strigger", "sattach", "sbcast"),
)


def _closed_ancestor(path: Path) -> Path | None:
    """The highest folder above ``path`` that others than its owner may not walk through."""
    return next((p for p in reversed(path.parents) if not p.stat().st_mode & 0o001), None)
