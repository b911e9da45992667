"""Faults of the network between nodes: both are named, or the one that the evidence singles out."""

from __future__ import annotations

import pytest

from jobgen.cli.output import Ink
from jobgen.cli.screens.failure import draw_cause, locate_cause
from tests.diagnose.logs import diagnose_failure

STEP = "step 12 loss 2.5"


def lose(node: str, peer: str, status: str = "12", gpu: int = 0, ids: str = "") -> str:
    return (
        f"{node}:411:522 [{gpu}] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from "
        f"peer {peer}<34567> with status={status} opcode=129 len=0 vendor err 129 (Recv){ids}"
    )


def use(node: str, address: str) -> str:
    return f"{node}:411:411 [0] NCCL INFO Bootstrap : Using eth0:{address}<0>"


@pytest.mark.parametrize("status", ["12", "5", "10", "IBV_WC_RETRY_EXC_ERR(12)"])
def test_both_nodes_are_named_and_no_rank(status: str) -> None:
    banner = [use("n1", "10.0.0.1"), use("n2", "10.0.0.2"), use("n3", "10.0.0.3")]
    cause = diagnose_failure(*banner, STEP, lose("n1", "10.0.0.2", status), STEP)
    assert (cause.kind, cause.between) == ("network_fault", ("n1", "n2"))
    assert (cause.bad_rank, cause.node, cause.all_ranks) == (None, "", False)
    assert locate_cause(cause) == ("between n1 and n2; nothing shows which of the two is at fault")


def test_reports_of_one_process_are_not_those_of_all_ranks() -> None:
    lines = [lose("n1", "10.0.0.2"), "n1:411:522 [0] NCCL INFO proxy.cc:698 -> 6"] * 3
    cause = diagnose_failure(STEP, *lines)
    assert not cause.all_ranks
    assert not any("all ranks" in row for row in draw_cause(cause, Ink(colour=False, width=100)))


def test_of_two_nodes_in_a_log_without_its_beginning_each_is_the_others_peer() -> None:
    cause = diagnose_failure(STEP, lose("n1", "10.0.0.2"), lose("n2", "10.0.0.1", "5"))
    assert cause.between == ("n1", "n2")


def test_a_peer_that_is_not_known_by_name_is_named_by_its_address() -> None:
    cause = diagnose_failure(STEP, lose("n1", "fe80::2%ib0"))
    assert cause.between == ("n1", "fe80::2")


def test_the_peer_that_most_nodes_lost_is_the_one_at_fault() -> None:
    banner = [use(f"n{number}", f"10.0.0.{number}") for number in range(1, 5)]
    lines = [lose(f"n{number}", "10.0.0.4") for number in (1, 2, 3)]
    cause = diagnose_failure(*banner, STEP, *lines, lose("n4", "10.0.0.1", "5"))
    assert (cause.node, cause.between, cause.retry) == ("n4", (), "other_nodes")
    assert cause.says == "3 nodes lost the connection to n4"


def test_several_pairs_show_the_fabric_and_blame_no_node() -> None:
    banner = [use(f"n{number}", f"10.0.0.{number}") for number in range(1, 5)]
    cause = diagnose_failure(*banner, STEP, lose("n1", "10.0.0.2"), lose("n3", "10.0.0.4"))
    assert (cause.node, cause.between) == ("", ("n1", "n2"))
    assert cause.says == "connections failed between n1 and n2 and also n3 and n4"


@pytest.mark.parametrize(
    "event",
    [
        "Got async event : port error",
        "mlx5_2:1 Got async error event: port error",
        "mlx5_2:1 async fatal event: local catastrophic error",
    ],
)
def test_an_event_of_its_own_adapter_singles_a_node_out(event: str) -> None:
    cause = diagnose_failure(
        STEP, lose("n1", "10.0.0.2"), f"n2:5:6 [3] net_ib.cc:9 NCCL WARN NET/IB : {event}"
    )
    assert (cause.node, cause.bad_rank, cause.between) == ("n2", None, ())
    assert cause.retry == "other_nodes"


def test_events_on_several_nodes_are_those_of_a_switch() -> None:
    event = "{}:5:6 [3] net_ib.cc:9 NCCL WARN NET/IB : Got async event : port error"
    cause = diagnose_failure(STEP, *(event.format(node) for node in ("n1", "n2", "n3")))
    assert (cause.node, cause.retry) == ("", "yes")
    assert cause.says.startswith("adapters of n1, n2 and n3 report events")


def test_an_event_on_a_queue_pair_is_none_of_the_adapters_port() -> None:
    event = "mlx5_1:1 async fatal event on QP (0x7f31): local access violation work queue error"
    cause = diagnose_failure(STEP, f"n1:5:6 [0] net_ib.cc:180 NCCL WARN NET/IB : {event}")
    assert (cause.kind, cause.retry) == ("network_fault", "yes")
    assert "port went down" not in cause.says


def test_libfabric_names_both_instances() -> None:
    cause = diagnose_failure(
        STEP,
        "libfabric:20914:1731400021::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 21, message: "
        "Unresponsive receiver My EFA addr: fi_addr_efa://[fe80::2a]:0:551 My host id: i-0a "
        "Peer EFA addr: fi_addr_efa://[fe80::c1]:0:880 Peer host id: i-0c (4124)",
    )
    assert (cause.kind, cause.between) == ("network_fault", ("i-0a", "i-0c"))


@pytest.mark.parametrize(
    "line",
    [
        "Got completion from peer 10.0.0.17<41207> with status=12 opcode=129 len=0 vendor err 129",
        "[1] net_ib.cc:1847 NCCL WARN NET/IB : Got completion from peer 10.0.0.17<41> with error 5",
        "NET/IB: Got completion from peer 10.0.0.17<41> with status=IBV_WC_REM_ACCESS_ERR(10)",
        "[rank3]: NET/IB : Got completion from peer 10.0.0.17<41> with status=12 opcode=32526",
        (
            "n1:7:9 [0] NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on "
            "dev mlx5_4:1, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.0.17"
        ),
    ],
)
def test_a_log_that_begins_in_the_middle_shows_it_too(line: str) -> None:
    cause = diagnose_failure("[rank3]: it failed", line)
    assert cause.kind == "network_fault"
    assert cause.between[1] == "10.0.0.17"
    assert cause.rank is None


def test_that_it_never_worked_is_only_known_of_a_log_with_its_beginning() -> None:
    assert diagnose_failure(lose("n1", "10.0.0.2")).retry == "yes"
    assert diagnose_failure(use("n1", "10.0.0.1"), lose("n1", "10.0.0.2")).retry == "no"


def test_the_kernel_reports_that_a_link_went_down() -> None:
    cause = diagnose_failure(STEP, "mlx5_core 0000:c1:00.0 ib0: Link down")
    assert (cause.kind, cause.retry) == ("network_fault", "other_nodes")


def test_a_gpu_number_that_a_rank_does_not_see_is_not_a_missing_gpu() -> None:
    cause = diagnose_failure(
        "Traceback (most recent call last):",
        '  File "train.py", line 7, in <module>',
        "    torch.cuda.set_device(int(os.environ['LOCAL_RANK']))",
        "RuntimeError: CUDA error: invalid device ordinal",
    )
    assert (cause.kind, cause.retry) == ("no_gpu", "no")
    rows = " ".join(map(str.strip, draw_cause(cause, Ink(colour=False, width=80))))
    assert "fewer GPUs are visible than the ranks of the node use" in rows
    assert "CUDA_VISIBLE_DEVICES, --gpus-per-task or --gpu-bind hides GPUs" in rows
