"""preflight.sh with preflight_node.sh, as a node runs them under preflight: full."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.payload.nodes import HEALTHY, Node, found, kinds
from tests.ports import reserved_port
from tests.waiting import HANG


class Full(Node):
    """A node that is checked in depth."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.blocks(full=True)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Full(tmp_path)


def test_a_node_that_is_well_says_what_it_has_and_nothing_else(node: Node) -> None:
    node.gpus()
    node.card("mlx5_0")
    node.interface("ib0")
    named = "named=^(mlx5_0):[0-9]+ "
    lines = node.look("gpus=8", "shm=512", "ports=1", named, "gbps=200", "interface=^(ib0) ")
    assert found(lines) == []
    facts = {line[1]: line[2] for line in lines if line[0] == "fact"}
    assert facts.pop("kernel") == os.uname().release
    assert facts == {
        "GPU": "NVIDIA H100 80GB HBM3",
        "NVIDIA driver": "550.90.07",
        "maximum GPU clock": "1980 MHz",
        "GPU power limit": "700.00 W",
    }


@pytest.mark.parametrize(
    ("gpus", "level", "said"),
    [
        ({"slow": "5, Active, Not Active"}, "warn", "GPU 5 is throttled while idle"),
        ({"slow": "5, Active, Not Active", "old": True}, "warn", "GPU 5 is throttled"),
        ({"apps": "GPU-1, 4711, 30000, python"}, "bad", "process 4711 (python) uses 30000 MiB"),
        ({"apps": "GPU-1, 4711, 12, mps"}, "warn", "process 4711 (mps) uses a GPU"),
        ({"apps": "GPU-1, 4711, [N/A], python"}, "warn", "process 4711 (python) uses a GPU"),
    ],
)
def test_gpus(node: Node, gpus: dict[str, object], level: str, said: str) -> None:
    node.gpus(**gpus)  # type: ignore[arg-type]
    told = found(node.look("gpus=8"))
    assert [each for each, _ in told] == [level]
    assert all(said in text for _, text in told)


def test_of_a_shared_node_only_the_jobs_own_gpus_are_looked_at(node: Node) -> None:
    node.gpus(8)
    node.look("gpus=2", CUDA_VISIBLE_DEVICES="4,5")
    asked = (node.folder / "asked").read_text().splitlines()
    assert asked[:2] == ["-q", "-L"]
    assert all(line.startswith("-i 4,5 ") for line in asked[2:])


def test_gpus_of_other_jobs_are_not_taken_for_the_jobs_own(node: Node) -> None:
    node.gpus(8, apps="GPU-7, 4711, 30000, python")
    assert found(node.look("gpus=2")) == [("skip", "GPUs: cannot tell which 2 belong to this job")]


def test_a_gpu_that_differs_from_its_neighbours_shows_in_the_facts_of_the_node(node: Node) -> None:
    slower = HEALTHY.replace("700.00", "350.00")
    node.gpus(row=f"{slower}'; echo '{HEALTHY}'; echo '{HEALTHY}")
    facts = {line[1]: line[2] for line in node.look("gpus=8") if line[0] == "fact"}
    assert facts["GPU power limit"] == "350.00 W, 700.00 W"
    assert facts["maximum GPU clock"] == "1980 MHz"


def test_long_words_are_cut_so_that_srun_sends_whole_lines(node: Node) -> None:
    node.gpus(apps=f"GPU-1, 7, 30000, {'x' * 9000}")
    assert all(len("\t".join(line)) < 1000 for line in node.look("gpus=8", NCCL_X="y" * 9000))


def test_xids_of_the_hardware_in_the_last_hour_are_told_of(node: Node) -> None:
    node.gpus()
    line = "[{time}] NVRM: Xid (PCI:0000:1b:00): {code}, pid=7, GPU has fallen off the bus."
    for time, code, told in ((99000.5, 79, 1), (10.0, 79, 0), (99000.5, 31, 0)):
        node.tool("dmesg", f"echo '{line.format(time=time, code=code)}'")
        assert len(found(node.look("gpus=8"))) == told, (time, code)


def test_the_version_of_amds_driver_is_compared(node: Node) -> None:
    node.blocks(amd=True, full=True)
    node.file("sys/class/kfd/kfd/topology/nodes/0/gpu_id", "111\n")
    node.file("sys/module/amdgpu/version", "6.7.0\n")
    assert ("fact", "amdgpu driver", "6.7.0") in node.look("gpus=1")


@pytest.mark.parametrize(
    ("state", "carrier", "address", "said"),
    [
        ("up", "1", True, ""),
        ("unknown", "1", True, ""),
        ("down", "0", True, "no network interface of the job is ready, ib0 is down"),
        ("lowerlayerdown", "", True, "no network interface of the job is ready, ib0 is down"),
        ("up", "0", True, "no network interface of the job is ready, ib0 is down"),
        ("up", "1", False, "no network interface of the job is ready, ib0 has no address"),
    ],
)
def test_the_interface(node: Node, state: str, carrier: str, address: bool, said: str) -> None:
    node.interface("eth0")
    node.interface("ib0", state, carrier)
    if not address:
        node.tool("ip", "exit 0")
    assert found(node.look("interface=^(ib0) ")) == ([("bad", said)] if said else [])
    missing = [("bad", "no network interface of the job is ready")]
    assert found(node.look("interface=^(ib7) ")) == missing


def test_loopback_counts_only_where_it_is_named(node: Node) -> None:
    node.interface("lo", "unknown")
    assert found(node.look("interface=^(lo) ")) == []
    others = ("interface=^()[^ :]* ", "no_interface=^(docker|lo)[^ :]* ")
    assert found(node.look(*others))[0][0] == "bad"


def test_of_several_interfaces_one_that_is_down_is_a_warning(node: Node) -> None:
    node.interface("ib0")
    node.interface("ib1", "down", "0")
    assert found(node.look("interface=^(ib)[^ :]* ")) == [("warn", "ib1 is down")]


@pytest.mark.parametrize(
    ("mib", "levels"),
    [(4096, []), (600, ["warn"] * 3), (1, ["bad", "warn", "bad", "wrong"])],
)
def test_room_in_shm_tmp_and_the_run_directory(node: Node, mib: int, levels: list[str]) -> None:
    node.free(mib)
    lines = node.look("shm=512", "first=n1", JOBGEN_RUN_DIR="/run-of-n1")
    assert [level for level, _ in found(lines)] == levels
    elsewhere = node.look("shm=512", "first=n0", JOBGEN_RUN_DIR="/run-of-n1")
    assert [level for level, _ in found(elsewhere)] == levels[:-1]


def test_what_the_job_did_not_set_is_left_over(node: Node) -> None:
    told = found(
        node.look("env=NCCL_DEBUG", NCCL_DEBUG="WARN", NCCL_ALGO="Ring", PET_NNODES="9", RANK="3")
    )
    assert {text.partition(" ")[0] for _, text in told} == {
        "NCCL_ALGO=Ring",
        "PET_NNODES=9",
        "RANK=3",
    }
    assert {level for level, _ in told} == {"warn"}
    (node.folder / ".nccl.conf").write_text("NCCL_IB_DISABLE=1\n")
    assert found(node.look()) == [("warn", "NCCL also reads ~/.nccl.conf")]


def test_a_home_that_hangs_can_be_named(node: Node) -> None:
    """Its file is looked at by bash itself, which has no deadline."""
    assert next(line[1] for line in node.look() if line[0] == "at") == "left"


def test_too_little_memory_that_may_be_locked(node: Node) -> None:
    limit = "ulimit -l 8192 2>/dev/null; exec bash"
    done = subprocess.run(
        ["bash", "-c", f"{limit} {node.script} -- memlock=1048576"],
        capture_output=True,
        text=True,
    )
    assert "\todd\tthe locked-memory limit is 8192 KiB" in done.stdout
    done = subprocess.run(
        ["bash", "-c", f"{limit} {node.script} -- memlock=64"],
        capture_output=True,
        text=True,
    )
    assert "may be locked" not in done.stdout


# ---- the way to the head


def test_a_head_without_a_name(node: Node) -> None:
    node.tool("getent", "exit 2")
    lines = node.look("host=n0", "port=20001", "first=n0")
    assert found(lines) == [("bad", "cannot resolve the rendezvous host, n0")]


def test_a_head_that_is_this_node_by_mistake(node: Node) -> None:
    node.tool("getent", "echo '127.0.1.1 n0'")
    lines = node.look("host=n0", "port=20001", "first=n0")
    assert found(lines) == [
        ("bad", "the rendezvous host, n0, resolves to 127.0.1.1, this node itself")
    ]


def test_a_name_service_that_hangs_says_nothing_of_the_head(node: Node) -> None:
    node.tool("getent", "exit 124")
    assert not any(
        "not known" in text for _, text in found(node.look("host=127.0.0.1", "port=1", "local=yes"))
    )


@contextmanager
def head_node(node: Node) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The preflight of a head that listens for one other node, and its port."""
    with reserved_port() as port:
        words = ("--", "first=n0", "others=1", f"port={port}")
        with subprocess.Popen(
            ["bash", str(node.script), *words],
            env={**os.environ, "SLURMD_NODENAME": "n0"},
            stdout=subprocess.PIPE,
            text=True,
        ) as head:
            try:
                assert head.stdout is not None
                for line in head.stdout:
                    if line == "n0\tlistens\tpython3\n":
                        break
                else:
                    pytest.fail("the head does not listen")
                yield port, head
            finally:
                head.terminate()


def test_a_head_that_listens_is_reached_and_its_port_is_free_at_once(node: Node) -> None:
    node.tool("getent", "echo '127.0.0.1 localhost'")
    with head_node(node) as (port, head):
        lines = node.look("host=127.0.0.1", f"port={port}", "first=n0", "local=yes")
        head.communicate(timeout=HANG)
    assert "reached" in kinds(lines)
    with socket.socket() as store:
        store.bind(("", port))
        store.listen()


def test_a_stranger_who_says_nothing_is_not_counted_by_the_head(node: Node) -> None:
    with head_node(node) as (port, head):
        socket.create_connection(("127.0.0.1", port)).close()
        lines = node.look("host=127.0.0.1", f"port={port}", "first=n0", "local=yes")
        head.communicate(timeout=HANG)
    assert head.returncode == 0
    assert "reached" in kinds(lines)


def test_nobody_listens_where_there_is_no_python(node: Node) -> None:
    node.tool("getent", "echo '127.0.0.1 localhost'")
    bare = node.folder / "bare"
    bare.mkdir()
    for name in ("bash", "timeout", "date", "uname", "awk", "grep", "sed", "sleep", "tr", "cat"):
        (bare / name).symlink_to(
            next(p for p in (Path("/bin") / name, Path("/usr/bin") / name) if p.exists())
        )
    path = f"{node.folder / 'bin'}:{bare}"
    lines = node.look("host=127.0.0.1", "port=1", "first=n0", "local=yes", PATH=path)
    assert "refused" in kinds(lines)
    lines = node.look("host=n1", "port=20001", "first=n1", "others=3", PATH=path)
    assert found(lines) == [("skip", "rendezvous port: no python3 here to listen on it")]


def test_a_port_that_is_taken_is_the_jobs_bad_luck_and_not_the_nodes(node: Node) -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        lines = node.look("first=n1", "others=1", f"port={port}")
    assert found(lines) == [("wrong", f"port {port}: Address already in use")]
