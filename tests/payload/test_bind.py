"""rank.sh divides a node's CPUs among its ranks: on recorded nodes, and on any node.

Real bash on a sysfs made from the facts. Only ``taskset`` is a stand-in: it writes down the CPUs,
because this machine does not have them.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobgen import payload
from tests.shellcheck import shellcheck

FACTS = Path(__file__).parents[1] / "facts" / "affinity"
UUID = "GPU-{:08x}-0000-0000-0000-000000000000"
INFORMATION = """\
Model: \t\t {model}
IRQ:   \t\t {irq}
GPU UUID: \t {uuid}
Video BIOS: \t 92.00.45.00.03
Bus Type: \t PCIe
DMA Size: \t 47 bits
DMA Mask: \t 0x7fffffffffff
Bus Location: \t {pci}
Device Minor: \t {minor}
GPU Excluded:\t No
"""
"""/proc/driver/nvidia/gpus/ADDRESS/information, as driver 535 writes it."""


@dataclass(frozen=True)
class Machine:
    """A node: its NUMA nodes, its GPUs in the order of their addresses, the CPUs of the job."""

    gpus: list[tuple[str, int]]
    nodes: list[str]
    distances: list[list[int]]
    allowed: str
    sibling: int = 0
    vendor: str = "nvidia"
    model: str = "NVIDIA H100 80GB HBM3"
    expected: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def build(self, root: Path) -> None:
        """Its files under another root."""
        node = root / "sys/devices/system/node"
        write(node / "online", f"0-{len(self.nodes) - 1}")
        for number, cpus in enumerate(self.nodes):
            write(node / f"node{number}" / "cpulist", cpus)
            write(node / f"node{number}" / "distance", " ".join(map(str, self.distances[number])))
        for cpu in (cpu for cpus in self.nodes for cpu in expand(cpus)):
            first = cpu % self.sibling if self.sibling else cpu
            core = f"{first},{first + self.sibling}" if self.sibling else str(cpu)
            write(
                root / f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list",
                core,
            )
        for number, (pci, numa) in enumerate(self.gpus):
            write(root / "sys/bus/pci/devices" / pci / "numa_node", str(numa))
            (self.nvidia if self.vendor == "nvidia" else self.amd)(root, number, pci)
        write(root / "proc/self/status", f"Name:\tbash\nCpus_allowed_list:\t{self.allowed}\n")

    def nvidia(self, root: Path, number: int, pci: str) -> None:
        uuid = UUID.format(number)
        text = INFORMATION.format(
            model=self.model, irq=70 + number, uuid=uuid, pci=pci, minor=number
        )
        write(root / "proc/driver/nvidia/gpus" / pci / "information", text)
        write(root / f"dev/nvidia{number}", "")

    def amd(self, root: Path, number: int, pci: str) -> None:
        """CPUs are nodes of KFD, too, and come first."""
        domain, bus, device = (int(part, 16) for part in pci.removesuffix(".0").split(":"))
        kfd, cpus = root / "sys/class/kfd/kfd/topology/nodes", len(self.nodes)
        for cpu in range(cpus):
            write(kfd / str(cpu) / "properties", "simd_count 0\nlocation_id 0\ndomain 0\n")
        place = (
            f"location_id {bus << 8 | device << 3}\ndomain {domain}\nunique_id 13321655985203289"
        )
        text = f"cpu_cores_count 0\nsimd_count 1216\nvendor_id 4098\n{place}{number:03}\n"
        write(kfd / str(cpus + number) / "properties", text)

    def bind(self, root: Path, ranks: int | None = None, **env: str) -> list[str]:
        """The CPUs of each rank; empty where it stays as it is."""
        self.build(root)
        return bind(root, ranks or len(self.gpus), self.vendor, **env)


def script(vendor: str, divided: str, *, known: bool = False) -> str:
    """What rank.sh does to bind a rank, with the paths of the node below the working directory."""
    blocks = ["bind", "known"] if known else ["bind", "search", vendor, divided]
    text = payload.select_blocks(payload.text("rank.sh"), blocks)
    begin, end = "# ---- CPU binding: ", 'taskset -pc "$cpus" $$ &>/dev/null\n'
    text = text[text.index(begin) : text.index(end) + len(end)]
    return re.sub(r"(?<=[( \"])/(?=sys/|proc/|dev/nvidia)", "./", text)


def bind(root: Path, ranks: int, vendor: str = "nvidia", **env: str) -> list[str]:
    """What the ranks of a node with these files do."""
    divided = "neighbors" if "JOBGEN_RANKS_PER_GPU" in env else "separate"
    write(root / "bind.sh", script(vendor, divided, known="JOBGEN_GPU_CPUS" in env))
    write(root / "bin/taskset", '#!/bin/bash\nprintf "%s" "$2" >"$OUT"\n')
    (root / "bin/taskset").chmod(0o755)
    found = []
    for rank in range(ranks):
        out = root / f"rank{rank}"
        out.write_text("")
        words = {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(ranks), "OUT": str(out)}
        path = {"PATH": f"{root / 'bin'}:{os.environ['PATH']}"}
        subprocess.run(["bash", "bind.sh"], cwd=root, env={**path, **words, **env})
        found.append(fold(expand(out.read_text())))
    return found


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + ("" if text.endswith("\n") else "\n"))


def expand(text: str) -> list[int]:
    spans = (part.split("-") for part in text.split(",") if part)
    return [cpu for span in spans for cpu in range(int(span[0]), int(span[-1]) + 1)]


def fold(cpus: list[int]) -> str:
    runs = itertools.groupby(enumerate(sorted(cpus)), lambda pair: pair[1] - pair[0])
    spans = [[cpu for _, cpu in run] for _, run in runs]
    return ",".join(str(s[0]) if len(s) == 1 else f"{s[0]}-{s[-1]}" for s in spans)


def recorded(name: str) -> Machine:
    data: dict[str, Any] = json.loads((FACTS / f"{name}.json").read_text())
    return Machine(**{**data, "gpus": [(pci, numa) for pci, numa in data["gpus"]]})


MACHINES = sorted(path.stem for path in FACTS.glob("*.json"))
TWO = Machine(
    gpus=[("0000:1b:00.0", 0), ("0000:43:00.0", 1)],
    nodes=["0-3", "4-7"],
    distances=[[10, 21], [21, 10]],
    allowed="0-7",
)


@pytest.mark.parametrize("name", MACHINES)
def test_each_rank_of_a_recorded_node_gets_the_cpus_near_its_gpu(name: str, tmp_path: Path) -> None:
    machine = recorded(name)
    assert machine.bind(tmp_path) == machine.expected


def test_what_is_allocated_is_divided_and_nothing_else(tmp_path: Path) -> None:
    """Four GPUs of a DGX H100, found by their UUIDs, and 32 cores of its second socket."""
    machine = recorded("dgx-h100")
    names = ",".join(UUID.format(number) for number in (7, 6, 5, 4))
    machine = Machine(**{**vars(machine), "allowed": "56-87,168-199"})
    assert machine.bind(tmp_path, 4, CUDA_VISIBLE_DEVICES=names, SLURM_CPUS_ON_NODE="64") == [
        "56-63,168-175",
        "64-71,176-183",
        "72-79,184-191",
        "80-87,192-199",
    ]


@pytest.mark.parametrize(
    ("value", "ranks"),
    [
        ("1,0", ["4-7", "0-3"]),
        (f"{UUID.format(1)},{UUID.format(0)}", ["4-7", "0-3"]),
        ("0", ["", ""]),
        ("", ["", ""]),
        ("0,7", ["", ""]),
        ("MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f,MIG-5c89852c-d268", ["", ""]),
    ],
)
def test_the_variable_says_whose_gpu_is_whose(value: str, ranks: list[str], tmp_path: Path) -> None:
    assert TWO.bind(tmp_path, 2, CUDA_VISIBLE_DEVICES=value) == ranks


def test_indexes_count_only_gpus_that_the_job_may_open(tmp_path: Path) -> None:
    """Slurm numbers them so where control groups guard them."""
    three = [("0000:07:00.0", 0), *TWO.gpus]
    Machine(**{**vars(TWO), "gpus": three}).build(tmp_path)
    (tmp_path / "dev/nvidia0").unlink()
    assert bind(tmp_path, 2, CUDA_VISIBLE_DEVICES="1,0") == ["4-7", "0-3"]


def test_variables_of_amd_apply_one_after_the_other(tmp_path: Path) -> None:
    machine = recorded("mi300x")
    words = {"ROCR_VISIBLE_DEVICES": "7,0,3", "HIP_VISIBLE_DEVICES": "1,0"}
    assert machine.bind(tmp_path, 2, **words) == ["0-47", "48-95"]
    assert bind(tmp_path, 2, "amd", **words, CUDA_VISIBLE_DEVICES="9") == ["0-47", "48-95"]


def test_of_different_models_the_order_of_cuda_is_not_known(tmp_path: Path) -> None:
    TWO.build(tmp_path)
    file = tmp_path / "proc/driver/nvidia/gpus" / TWO.gpus[1][0] / "information"
    file.write_text(file.read_text().replace("H100 80GB HBM3", "T400 4GB"))
    assert bind(tmp_path, 2) == ["", ""]
    assert bind(tmp_path, 2, CUDA_DEVICE_ORDER="PCI_BUS_ID") == ["0-3", "4-7"]
    names = f"{UUID.format(0)},{UUID.format(1)}"
    assert bind(tmp_path, 2, CUDA_VISIBLE_DEVICES=names) == ["0-3", "4-7"]


@pytest.mark.parametrize("missing", ["sys/bus", "sys/devices/system/node", "sys", "proc/driver"])
def test_where_the_node_does_not_tell_nothing_is_bound(missing: str, tmp_path: Path) -> None:
    TWO.build(tmp_path)
    (tmp_path / missing).rename(tmp_path / "away")
    assert bind(tmp_path, 2) == ["", ""]


def test_a_virtual_machine_without_numa_nodes_of_gpus_is_not_bound(tmp_path: Path) -> None:
    unknown = Machine(**{**vars(TWO), "gpus": [(pci, -1) for pci, _ in TWO.gpus]})
    assert unknown.bind(tmp_path) == ["", ""]


def test_a_rank_that_would_get_next_to_nothing_leaves_all_unbound(tmp_path: Path) -> None:
    """The others would wait for it."""
    assert Machine(**{**vars(TWO), "allowed": "0-3,4"}).bind(tmp_path) == ["", ""]
    assert Machine(**{**vars(TWO), "allowed": "0-3,6-7"}).bind(tmp_path) == ["0-3", "6-7"]


def test_where_all_cpus_are_far_from_a_gpu_they_are_divided(tmp_path: Path) -> None:
    assert Machine(**{**vars(TWO), "allowed": "0-3"}).bind(tmp_path) == ["0-1", "2-3"]


def test_a_task_that_sees_more_cpus_than_slurm_gave_is_not_bound(tmp_path: Path) -> None:
    """Without control groups its mask holds the CPUs of other jobs."""
    assert TWO.bind(tmp_path, 2, SLURM_CPUS_ON_NODE="4") == ["", ""]
    assert TWO.bind(tmp_path, 2, SLURM_CPUS_ON_NODE="8") == ["0-3", "4-7"]


def test_neighbors_on_a_gpu_divide_the_cores_near_it(tmp_path: Path) -> None:
    shared = {"JOBGEN_RANKS_PER_GPU": "2"}
    assert TWO.bind(tmp_path, 4, **shared) == ["0-1", "2-3", "4-5", "6-7"]
    assert TWO.bind(tmp_path, 4, **shared, CUDA_VISIBLE_DEVICES="1,0") == [
        *("4-5", "6-7"),
        *("0-1", "2-3"),
    ]


def test_the_profile_names_the_cpus(tmp_path: Path) -> None:
    machine = Machine(**{**vars(TWO), "allowed": "1-6"})
    assert machine.bind(tmp_path, 2, JOBGEN_GPU_CPUS="4-7 0-3,8") == ["4-6", "1-3"]
    assert bind(tmp_path, 2, JOBGEN_GPU_CPUS="8-9 0-3") == ["", "1-3"]


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Nodes of all shapes, and a job that has some of their CPUs."""
    count, width = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    sibling = count * width * draw(st.integers(0, 1))
    spans = [list(range(n * width, (n + 1) * width)) for n in range(count)]
    nodes = [span + [cpu + sibling for cpu in span if sibling] for span in spans]
    far = draw(st.lists(st.integers(11, 40), min_size=9, max_size=9))
    distances = [
        [10 if i == j else far[3 * min(i, j) + max(i, j)] for j in range(count)]
        for i in range(count)
    ]
    homes = draw(st.lists(st.integers(0, count - 1), min_size=2, max_size=3))
    every = sorted(cpu for node in nodes for cpu in node)
    allowed = draw(st.sets(st.sampled_from(every), min_size=1))
    gpus = [(f"0000:{16 + number:02x}:00.0", home) for number, home in enumerate(homes)]
    return Machine(gpus, [fold(node) for node in nodes], distances, fold(sorted(allowed)), sibling)


@settings(max_examples=12, deadline=None)
@given(machine=machines())
def test_every_cpu_has_one_rank_and_no_core_two(machine: Machine) -> None:
    with TemporaryDirectory() as folder:
        ranks = [expand(text) for text in machine.bind(Path(folder))]
    allowed = expand(machine.allowed)
    if not any(ranks):
        return
    assert sorted(cpu for rank in ranks for cpu in rank) == allowed
    core = {cpu: cpu % machine.sibling if machine.sibling else cpu for cpu in allowed}
    owners = [{core[cpu] for cpu in rank} for rank in ranks]
    assert sum(map(len, owners)) == len(set(core.values()))
    assert 2 * len(ranks) * min(map(len, owners)) >= len(set(core.values()))


@pytest.mark.parametrize("blocks", [("search", "nvidia"), ("search", "amd"), ("known",)])
def test_the_script_is_short_and_clean(blocks: tuple[str, ...], tmp_path: Path) -> None:
    with_block = payload.select_blocks(payload.text("rank.sh"), {"bind", *blocks})
    without = payload.select_blocks(payload.text("rank.sh"), set())
    assert with_block.count("\n") - without.count("\n") <= 66
    write(tmp_path / "rank.sh", with_block)
    done = subprocess.run([shellcheck(), tmp_path / "rank.sh"], capture_output=True, text=True)
    assert not done.stdout, done.stdout
