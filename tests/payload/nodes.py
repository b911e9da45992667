"""A node of files to run preflight.sh on: its /sys and /proc, and the tools on its PATH."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from jobgen import preflight
from tests.waiting import HANG

PAYLOAD = Path(__file__).parents[2] / "jobgen" / "payload"
DF = """echo 'Filesystem 1024-blocks Used Available Capacity Mounted on'
echo 'tmpfs 8388608 1024 {free} 1% '"$2\""""
HEALTHY = "0,550.90.07,1980,700.00,NVIDIA H100 80GB HBM3"
"""One GPU as --query-gpu reports it: index, driver, clock, power limit, name."""
AWAKE = "0, Not Active, Not Active"
QUERY = """GPU 00000000:{index:02X}:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    MIG Mode
        Current                           : Disabled
    Clocks Event Reasons
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
    ECC Errors
        Volatile
            SRAM Uncorrectable            : 0
            DRAM Correctable              : 177
            DRAM Uncorrectable            : 0
        Aggregate
            DRAM Uncorrectable            : 3
    Retired Pages
        Pending Page Blacklist            : No
    Remapped Rows
        Pending                           : No
        Remapping Failure Occurred        : No
"""
"""One GPU as nvidia-smi -q reports it."""

UNLIMITED = '[[ $1 != -k ]] || shift 2; shift; exec "$@"'
"""A ``timeout`` that ends nothing: a node that is well is so on a busy machine too."""
CLOCK = """
unset BASH_ENV SECONDS
SECONDS=0
sleep() {
    SECONDS=$((SECONDS + 1))
    command sleep "$1"
}
"""
"""A clock for the script under test, read as BASH_ENV: time passes only where it sleeps."""

Lines = list[tuple[str, ...]]


class Node:
    """A node of files: its /sys and /proc, and the tools on its PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        self.script = folder / "bundle" / "preflight.sh"
        self.script.parent.mkdir()
        self.blocks()
        self.free(4096)
        self.tool("timeout", UNLIMITED)
        (folder / "clock").write_text(CLOCK)
        self.tool("dmesg", "exit 1")
        self.tool("ip", "echo '2: eth0 inet 192.0.2.7/24 scope global eth0'")
        self.file("proc/uptime", "100000.00 5.00\n")

    def blocks(self, *, amd: bool = False, full: bool = False) -> None:
        """The scripts as a job with such GPUs, or with preflight: full, has them."""
        for file in preflight.files(amd=amd, full=full):
            (self.script.parent / file.path).parent.mkdir(exist_ok=True)
            (self.script.parent / file.path).write_bytes(file.content)

    def file(self, path: str, text: str) -> None:
        place = self.folder / "root" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def tool(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def free(self, mib: int) -> None:
        """So many MiB are free everywhere."""
        self.tool("df", DF.format(free=mib * 1024))

    def card(self, name: str, state: str = "4: ACTIVE", rate: str = "200 Gb/sec (4X HDR)") -> None:
        """An RDMA card with one port."""
        port = f"sys/class/infiniband/{name}/ports/1"
        self.file(f"{port}/state", state + "\n")
        self.file(f"{port}/rate", rate + "\n")
        self.file(f"{port}/link_layer", "InfiniBand\n")

    def interface(self, name: str, state: str = "up", carrier: str = "1") -> None:
        self.file(f"sys/class/net/{name}/operstate", state + "\n")
        self.file(f"sys/class/net/{name}/carrier", carrier + "\n")

    def gpus(
        self,
        count: int = 8,
        *,
        row: str = HEALTHY,
        query: str = QUERY,
        slow: str = "",
        apps: str = "",
        old: bool = False,
    ) -> None:
        """An nvidia-smi; ``old`` knows the throttle reasons by their name before release 535."""
        listed = "\n".join(f"echo 'GPU {i}: NVIDIA H100 (UUID: GPU-{i})'" for i in range(count))
        reasons = "clocks_throttle_reasons" if old else "clocks_event_reasons"
        (self.folder / "query").write_text("".join(query.format(index=i) for i in range(count)))
        none = 'echo "No devices were found"; exit 6'
        self.tool(
            "nvidia-smi",
            f"""echo "$*" >>{self.folder}/asked
case "$*" in
    -q) {f"cat {self.folder}/query" if count else none} ;;
    -L) {listed or none} ;;
    *--query-gpu=index,driver*) echo '{row.replace(",", ", ")}' ;;
    *--query-gpu=index,{reasons}.*) echo '{slow or AWAKE}' ;;
    *--query-gpu=*) echo 'Field "x" is not a valid field to query.'; exit 2 ;;
    *--query-compute-apps=*) echo '{apps}' ;;
esac""",
        )

    def look(self, *expect: str, **env: str) -> Lines:
        """What the node says: kind and words of each line."""
        done = subprocess.run(
            ["bash", str(self.script), "--", *expect],
            env={
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "BASH_ENV": str(self.folder / "clock"),
                "PREFLIGHT_ROOT": str(self.folder / "root"),
                "SLURMD_NODENAME": "n1",
                "HOME": str(self.folder),
                **env,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG,
        )
        assert done.stderr == ""
        lines = [tuple(line.split("\t")) for line in done.stdout.splitlines()]
        assert {line[0] for line in lines} == {"n1"}
        kinds = [line[1] for line in lines]
        assert kinds[0] == "clock"
        assert kinds.count("end") == 1
        return [line[1:] for line in lines]


LEVELS = ("bad", "odd", "wrong", "warn", "skip")


def found(lines: Lines) -> list[tuple[str, str]]:
    """Level and text of what is wrong."""
    return [(line[0], line[1]) for line in lines if line[0] in LEVELS]


def kinds(lines: Lines) -> set[str]:
    return {line[0] for line in lines}
