"""What a table means: for the GPUs, for the cards, and where it does not say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.survey.hardware import amd_topo, ibstat, ibv_devinfo, topo, topology, topology_words
from jobgen.survey.hardware.ports import Port
from tests.survey.facts import FACTS, files

TABLES = files("hardware/topo-*.txt")


def text(name: str) -> str:
    return (FACTS / "hardware" / f"{name}.txt").read_text()


def explained(name: str, *ports: Port) -> topology.Topology:
    return topology.explain(topo.parse(text(name)), ports)


def said(found: topology.Topology) -> str:
    return " ".join(topology_words.describe_topology(found))


def test_ports_that_are_down_leave_the_cards_of_the_vendors_own_list() -> None:
    """The twelve PIX cards of this node hold the eight of NVIDIA's DGX H100 guide, table 6."""
    near = explained("topo-mp-h100")
    assert len(near.compute) == 12
    found = explained("topo-mp-h100", *ibv_devinfo.parse(text("ibv_devinfo-h100-ib")))
    assert found.ib_hca == "mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11"
    assert found.others == ("mlx5_1", "mlx5_2", "mlx5_7", "mlx5_8")


def test_a_slower_port_is_not_for_training() -> None:
    ports = [Port(f"mlx5_{i}", 1, "active", gbps=400) for i in range(10, 17)]
    found = explained("topo-b300", *ports, Port("mlx5_17", 1, "active", gbps=100))
    assert "mlx5_17" not in found.compute
    assert len(found.compute) == 7


def test_ports_of_another_machine_change_nothing() -> None:
    assert explained("topo-b300", Port("hfi1_0", 1, "active")) == explained("topo-b300")


def test_two_gpus_that_share_two_cards_have_one_each() -> None:
    found = explained("topo-dgx-a100")
    assert [gpu.rail for gpu in found.gpus] == [(f"mlx5_{i}",) for i in range(8)]
    assert found.gpus[0].near == ("mlx5_0", "mlx5_1")


def test_a_gpu_off_nvlink_is_named() -> None:
    found = explained("topo-b200-broken")
    assert (found.intra, found.without) == ("nvswitch", ("GPU2",))
    assert "Broken: GPU2 has no NVLink" in said(found)


def test_a_pair_with_fewer_nvlinks_is_named() -> None:
    row = re.compile(r"(GPU1\tNV18\t X \tNV18\t)NV18(.*)")
    column = re.compile(r"(GPU3\tNV18\t)NV18(.*)")
    broken = column.sub(r"\1NV17\2", row.sub(r"\1NV17\2", text("topo-b300")))
    found = topology.explain(topo.parse(broken))
    assert found.weaker == (("GPU1", "GPU3", "NV17"),)
    assert "GPU1-GPU3 NV17" in said(found)


def test_bridges_join_pairs() -> None:
    found = explained("topo-pairs")
    assert found.islands == (("GPU0", "GPU1"), ("GPU2", "GPU3"))
    assert "joins GPU0+GPU1 and GPU2+GPU3" in said(found)
    assert "keep tensor parallelism inside a group" in said(found)


def test_without_nvlink_the_words_of_pcie_are_counted() -> None:
    assert "PHB 2, NODE 4, SYS 4" in said(explained("topo-consumer-mixed"))


def test_gpus_without_a_near_card_are_named() -> None:
    found = explained("topo-cgroup-cpus")
    assert [gpu.name for gpu in found.gpus if not gpu.gdr] == ["GPU1", "GPU2", "GPU5", "GPU7"]
    assert "GPU1, GPU2, GPU5 and GPU7 have no NIC" in said(found)
    assert "PXN" in said(found)


def test_a_virtual_machine_hides_the_tree_and_the_rate_tells_the_cards() -> None:
    """As on Azure's ND A100 v4, where ibstat knows which cards are InfiniBand."""
    guest = re.sub(r"\b(PXB|SYS|PIX|NODE)\b(?! +=)", "NODE", text("topo-dgx-a100"))
    matrix = topo.parse(guest)
    blind = topology.explain(matrix)
    assert (blind.alike, blind.ib_hca) == (True, "")
    assert "NCCL_TOPO_FILE" in said(blind)
    seen = topology.explain(matrix, ibstat.parse(text("ibstat-azure-a100")))
    assert seen.ib_hca == ",".join(f"mlx5_{i}" for i in range(1, 9))


def test_on_grace_the_cards_hang_on_the_cpu() -> None:
    found = explained("topo-gb200")
    assert found.grace
    assert "C2C" in said(found)
    assert "virtual machine" not in said(found)


@pytest.mark.parametrize("name", ["topo-dgx-2", "topo-gb200", "topo-b200-glued", "topo-dgx1-soc"])
def test_a_cut_table_gives_no_list_of_cards(name: str) -> None:
    found = explained(name)
    assert (found.cut, found.ib_hca) == (True, "")
    assert "The table is cut" in said(found)


def test_cards_without_a_legend_give_no_list() -> None:
    found = explained("topo-hgx-h100")
    assert found.compute[:2] == ("NIC0", "NIC1")
    assert found.ib_hca == ""
    assert "the legend with their names is missing" in said(found)


def test_pcie_only_says_nothing_of_nvlink() -> None:
    found = explained("topo-mp-h100")
    assert (found.intra, found.pcie_only) == ("", True)
    assert "use -m" in said(found)


@pytest.mark.parametrize(
    ("name", "intra", "words"),
    [
        ("showtopo-xgmi-4", "infinity-fabric", "each joined to every other by Infinity Fabric"),
        ("showtopo-two-hives", "infinity-fabric", "GPU0+GPU1+GPU2+GPU3 and GPU4+GPU5+GPU6+GPU7"),
        ("showtopo-amd-smi", "pcie", "2 GPUs without Infinity Fabric"),
    ],
)
def test_what_joins_amd_gpus_is_said(name: str, intra: str, words: str) -> None:
    found = topology.explain_amd(amd_topo.parse(text(name)))
    assert found.intra == intra
    assert words in said(found)
    assert "nothing of NICs" in said(found)


def test_an_efa_device_is_no_infiniband() -> None:
    """Its link layer said InfiniBand in 2020: linux-rdma/rdma-core, pull request 884."""
    for name in ("ibv_devinfo-efa", "ibv_devinfo-efa-2020"):
        (port,) = ibv_devinfo.parse(text(name))
        assert not port.infiniband


def test_a_table_of_peer_access_says_nothing_of_what_joins_the_gpus() -> None:
    assert topology.explain(topo.parse(text("p2p-5090-pair"))).intra == ""


@pytest.mark.parametrize("path", TABLES, ids=lambda p: p.name)
def test_every_word_of_a_real_table_is_explained(path: Path) -> None:
    found = topology.explain(topo.parse(path.read_text()))
    used = {*found.pairs, *(gpu.link for gpu in found.gpus if gpu.link and not found.grace)}
    assert {word for word, _, _ in topology_words.list_meanings(found)} == used
    assert len(topology_words.list_rows(found)) == len(found.gpus)
    assert all(
        sentence.endswith((".", ")")) or ":" in sentence
        for sentence in topology_words.describe_topology(found)
    )


@given(st.sampled_from(TABLES), st.sampled_from([" ", "   ", "\t"]), st.booleans(), st.booleans())
def test_blanks_returns_and_colours_change_nothing(
    path: Path, blank: str, windows: bool, coloured: bool
) -> None:
    """What a copy from a terminal, a web page or a chat does to the table."""
    before = path.read_text()
    rows = [re.sub(r"[ \t]+", blank, r) if "Affinity" not in r else r for r in before.split("\n")]
    after = ("\r\n" if windows else "\n").join(
        f"\x1b[1m{row}\x1b[0m" if coloured else row for row in rows
    )
    one, other = topo.parse(before), topo.parse(after)
    assert other.links == one.links
    assert other.devices == one.devices
