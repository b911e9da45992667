"""preflight.sh as a node runs it: every check on a node that is well, and on one that is not."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from jobgen import preflight
from tests.payload.nodes import QUERY, Node, found, kinds
from tests.ports import reserved_port

FACTS = Path(__file__).parents[1] / "facts" / "hardware"
LONGEST = 120
"""Lines of the script: every bundle of several GPUs or nodes carries it."""
DOUBLE_BIT = "Volatile\n            Double Bit\n                Total   : 4\n"


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize("amd", [False, True])
def test_the_script_is_short(amd: bool) -> None:
    (file,) = preflight.files(amd=amd)
    assert len(file.content.splitlines()) <= LONGEST


def test_a_node_that_is_well_reports_its_clock_and_nothing_else(node: Node) -> None:
    node.gpus()
    node.card("mlx5_0")
    lines = node.look("gpus=8", "shm=512", "ports=1", "named=^(mlx5_0):[0-9]+ ", "gbps=200")
    assert [line[0] for line in lines] == ["clock", "at", "at", "at", "end"]


def test_one_call_of_nvidia_smi_counts_and_judges(node: Node) -> None:
    node.gpus()
    node.look("gpus=8")
    assert (node.folder / "asked").read_text() == "-q\n"


@pytest.mark.parametrize(
    ("now", "then", "said"),
    [
        ("DRAM Uncorrectable            : 0", "DRAM Uncorrectable : 2", "ECC Errors: DRAM Uncorr"),
        ("Page Blacklist            : No", "Page Blacklist : Yes", "Retired Pages: Pending Page"),
        ("Page Blacklist            : N", "Page Blacklist : N/A N", ""),
        ("Pending                           : No", "Pending : Yes", "Remapped Rows: Pending"),
        ("Occurred        : No", "Occurred : Yes", "Remapped Rows: Remapping Failure Occurred"),
        ("Thermal Slowdown           : Not", "Thermal Slowdown : ", "HW Thermal Slowdown: Active"),
        ("Brake Slowdown       : Not", "Brake Slowdown : ", "HW Power Brake Slowdown: Active"),
        ("HW Slowdown                       : Not", "HW Slowdown : ", ""),
        ("Volatile\n", DOUBLE_BIT, "ECC Errors: Total: 4"),
    ],
)
def test_the_health_of_gpus(node: Node, now: str, then: str, said: str) -> None:
    assert now in QUERY
    node.gpus(1, query=QUERY.replace(now, then, 1))
    assert [level for level, _ in found(node.look("gpus=1"))] == (["bad"] if said else [])
    assert all(said in text for _, text in found(node.look("gpus=1")))


@pytest.mark.parametrize(
    ("file", "gpus", "told"),
    [
        ("q-a10-remap.txt", 1, ["GPU 0: Remapped Rows: Pending: Yes"]),
        (
            "q-h100-brake.txt",
            2,
            [f"GPU {i}: Clocks Event Reasons: HW Power Brake Slowdown: Active" for i in (0, 1)],
        ),
        ("q-4090.txt", 2, []),
        ("q-titan-v.txt", 1, []),
        ("q-h100-cut.txt", 1, []),
    ],
)
def test_what_real_gpus_reported(node: Node, file: str, gpus: int, told: list[str]) -> None:
    node.tool("nvidia-smi", f"cat {FACTS / file}")
    assert found(node.look(f"gpus={gpus}")) == [("bad", text) for text in told]
    missing = f"{gpus} of {gpus + 1} GPUs found"
    assert ("bad", missing) in found(node.look(f"gpus={gpus + 1}"))


def test_gpus_that_are_missing(node: Node) -> None:
    node.gpus(7)
    assert found(node.look("gpus=8")) == [("bad", "7 of 8 GPUs found")]
    node.gpus(0)
    told = found(node.look("gpus=8"))
    assert told == [("bad", "0 of 8 GPUs found (No devices were found)")]


def test_slices_of_a_gpu_are_counted(node: Node) -> None:
    node.gpus(1, query=QUERY + "    MIG Device\n        Index : 0\n    MIG Device\n")
    assert found(node.look("gpus=2")) == []


def test_without_gpus_asked_for_no_gpu_is_checked(node: Node) -> None:
    node.gpus(0)
    assert found(node.look()) == []
    assert not (node.folder / "asked").exists()


def test_gpus_of_other_jobs_are_not_judged(node: Node) -> None:
    node.gpus(8, query=QUERY.replace("Rows\n        Pending  ", "Rows\n        Pending : Yes"))
    assert found(node.look("gpus=2")) == []


def test_without_a_tool_gpus_are_not_checked(node: Node) -> None:
    told = found(node.look("gpus=8", PATH=f"{node.folder / 'bin'}:/usr/bin:/bin"))
    assert told == [("skip", "GPUs: nvidia-smi not found")]


def test_long_words_are_cut_so_that_srun_sends_whole_lines(node: Node) -> None:
    node.tool("nvidia-smi", "printf '%09000d\\033[31m\\n' 7; exit 9")
    lines = node.look("gpus=8")
    assert all(len("\t".join(line)) < 1000 for line in lines)
    assert all(word.isprintable() for line in lines for word in line)


def test_amd_gpus_are_counted_and_their_errors_read(node: Node) -> None:
    node.blocks(amd=True)
    assert found(node.look("gpus=2")) == [("skip", "GPUs: amdgpu driver not loaded")]
    for number, gpu in enumerate((0, 0, 111, 222)):
        node.file(f"sys/class/kfd/kfd/topology/nodes/{number}/gpu_id", f"{gpu}\n")
    for path in ("card0/device/ras/umc_err_count", "card1/device/ras/sdma_err_count"):
        node.file(f"sys/class/drm/{path}", "ue: 0\nce: 7\n")
    assert found(node.look("gpus=2")) == []
    assert found(node.look("gpus=4")) == [("bad", "2 of 4 GPUs found")]
    node.file("sys/class/drm/card1/device/ras/umc_err_count", "ue: 3\nce: 0\n")
    ((level, said),) = found(node.look("gpus=2"))
    assert (level, said.partition("/sys/")[2]) == (
        "bad",
        "class/drm/card1/device/ras/umc_err_count: uncorrected errors 3",
    )
    assert said.startswith("/")


def test_the_errors_of_amds_only_counter_are_read(node: Node) -> None:
    node.blocks(amd=True)
    node.file("sys/class/kfd/kfd/topology/nodes/1/gpu_id", "111\n")
    node.file("sys/class/drm/card0/device/ras/umc_err_count", "ue: 3\nce: 0\n")
    ((level, said),) = found(node.look("gpus=1"))
    assert (level, said.rpartition("/")[2]) == ("bad", "umc_err_count: uncorrected errors 3")


PORTS = "named=^(mlx5_0|mlx5_1):[0-9]+ InfiniBand"


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ({"state": "1: DOWN"}, "mlx5_1:1 is DOWN at 200 Gb/sec (4X HDR)"),
        ({"state": "2: INIT"}, "mlx5_1:1 is INIT at 200 Gb/sec (4X HDR)"),
        ({"rate": "100 Gb/sec (4X EDR)"}, "mlx5_1:1 is ACTIVE at 100 Gb/sec (4X EDR)"),
        ({"rate": "2.5 Gb/sec (1X SDR)"}, "mlx5_1:1 is ACTIVE at 2.5 Gb/sec (1X SDR)"),
    ],
)
def test_a_port_that_is_down_or_slow_is_named(node: Node, card: dict[str, str], said: str) -> None:
    node.card("mlx5_0")
    node.card("mlx5_1", **card)
    node.card("mlx5_2")
    told = found(node.look("ports=2", PORTS, "gbps=200"))
    assert told == [("odd", f"1 of 2 network ports are ready, {said}")]


def test_a_port_of_another_kind_of_link_does_not_count(node: Node) -> None:
    node.card("mlx5_0")
    named = PORTS.replace("InfiniBand", "Ethernet")
    assert found(node.look("ports=1", named)) == [("odd", "0 of 1 network ports are ready")]


def test_a_port_that_is_excluded_does_not_count(node: Node) -> None:
    node.card("mlx5_0")
    node.card("mlx5_2", "1: DOWN")
    words = ("named=^()[^ :]*:[0-9]+ ", "but=^(mlx5_2)[^ :]*:[0-9]+ ")
    assert found(node.look("ports=1", *words)) == []
    assert found(node.look("ports=2", *words)) == [("odd", "1 of 2 network ports are ready")]


@pytest.mark.parametrize(
    ("state", "ready"),
    [("up", True), ("unknown", True), ("down", False), ("lowerlayerdown", False)],
)
def test_where_there_is_no_rdma_an_interface_is_a_port(node: Node, state: str, ready: bool) -> None:
    node.interface("eth0")
    node.interface("ib0", state)
    told = found(node.look("ports=1", "named=^(ib0) "))
    bad = [("odd", f"0 of 1 network ports are ready, ib0 is {state}")]
    assert told == ([] if ready else bad)


@pytest.mark.parametrize(
    ("mib", "all_of_it", "kinds_of"),
    [(4096, 8192, []), (100, 8192, ["bad"]), (64, 64, ["odd"])],
)
def test_room_in_shm(node: Node, mib: int, all_of_it: int, kinds_of: list[str]) -> None:
    node.tool("df", f"echo x; echo 'tmpfs {all_of_it * 1024} 0 {mib * 1024} 0% /dev/shm'")
    told = found(node.look("shm=512"))
    assert [kind for kind, _ in told] == kinds_of
    assert all(f"{mib} MiB free of {all_of_it}, but 512 are needed" in text for _, text in told)


# ---- the rendezvous host


def test_the_first_node_is_the_rendezvous_host_itself(node: Node) -> None:
    assert found(node.look("host=n1", "port=1", "first=n1")) == []
    assert not {"reached", "lost"} & kinds(node.look("host=n1", "port=1", "first=n1"))


def test_a_host_that_refuses_has_answered(node: Node) -> None:
    with reserved_port() as port:
        assert "reached" in kinds(node.look("host=127.0.0.1", f"port={port}", "first=n0"))


def test_a_host_that_listens_is_reached(node: Node) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        assert "reached" in kinds(node.look("host=127.0.0.1", f"port={port}", "first=n0"))


def test_a_host_that_does_not_answer_is_lost(node: Node) -> None:
    node.tool("timeout", "exit 124")
    lines = node.look("host=n0", "port=1", "first=n9")
    assert ("lost", "n0: no answer in 5 s") in lines


def test_a_host_without_a_name_is_lost(node: Node) -> None:
    said = "n0.invalid: Name or service not known"
    node.tool("timeout", f"echo 'bash: {said}' >&2; exit 1")
    lines = node.look("host=n0.invalid", "port=1", "first=n9")
    assert ("lost", said) in lines


def test_the_place_where_a_node_hangs_is_printed_before_each_check(node: Node) -> None:
    node.gpus()
    node.interface("eth0")
    lines = node.look("gpus=8", "shm=1", "ports=1", "named=^(eth0) ", "host=n1", "first=n1")
    assert [line[1] for line in lines if line[0] == "at"] == ["ports", "shm", "host", "gpus"]
