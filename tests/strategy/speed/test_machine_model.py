"""The machine of a profile: of every shipped one, and of those that leave something out."""

from __future__ import annotations

import pytest

from jobgen.catalog import find_shipped
from jobgen.load import load_cluster
from jobgen.strategy.estimate import GIB, ClusterHardware
from jobgen.strategy.speed.machine_model import read_machine


def of(name: str) -> ClusterHardware | None:
    path = find_shipped("clusters") / f"{name}.yaml"
    return read_machine(load_cluster(path.read_text(), path.name).value)


def made(nodes: str, network: str) -> ClusterHardware | None:
    text = (
        "name: c1\nscheduler: slurm\npaths: {root: /scratch/jobgen}\n"
        f"nodes: {nodes}\nnetwork: {network}\n"
    )
    return read_machine(load_cluster(text, "c1.yaml").value)


@pytest.mark.parametrize(
    ("name", "peak", "link", "network"),
    [
        ("a100x16", 312e12, 300e9, 25e9),  # 8 cards of 200 Gb/s for 8 GPUs
        ("aws-p4d", 312e12, 300e9, 6.25e9),  # 4 of 100
        ("aws-p5", 989e12, 450e9, 50e9),  # 32 of 100
        ("azure-nd-h100", 989e12, 450e9, 50e9),
        ("dgx-h100", 989e12, 450e9, 50e9),
        ("gcp-a2-ultra", 312e12, 300e9, 100e9 / 8 / 8),  # one of 100 for the node
        ("oci-h100", 989e12, 450e9, 50e9),
    ],
)
def test_shipped_profiles(name: str, peak: float, link: float, network: float) -> None:
    found = of(name)
    assert found is not None
    assert (found.peak, found.link, found.network) == (peak, link, network)
    assert found.node_gpus == 8
    assert bool(found.fast8) == (found.architecture == "Hopper")


@pytest.mark.parametrize(
    ("name", "gib"), [("L40S", 44.4), ("RTX-4090", 23.5), ("B300", 267.7), ("H100-SXM", 79.1)]
)
def test_a_gpu_has_the_memory_that_cuda_reports(name: str, gib: float) -> None:
    found = made(f"{{count: 2, gpus_per_node: 4, gpu: {name}}}", "{fabric: ethernet}")
    assert found is not None
    assert round(found.memory / GIB, 1) == gib


def test_nvlink_joins_as_many_nodes_as_the_profile_says() -> None:
    rack, node = of("gb200-nvl72"), of("dgx-h100")
    assert rack is not None
    assert node is not None
    assert (rack.nvlink_nodes, node.nvlink_nodes) == (18, 1)


def test_nodes_without_gpus_are_no_machine() -> None:
    assert of("local") is None


def test_a_network_without_figures_has_one_card_a_gpu_where_that_is_usual() -> None:
    node = "{count: 2, gpus_per_node: 4, gpu: H100-SXM}"
    usual = made(node, "{fabric: infiniband}")
    shared = made(node, "{fabric: ethernet}")
    assert usual is not None
    assert shared is not None
    assert usual.network == 200e9 / 8
    assert shared.network == 100e9 / 8 / 4


def test_gpus_on_pcie_have_no_nvlink() -> None:
    plain = made("{count: 2, gpus_per_node: 4, gpu: A100-80GB}", "{fabric: none}")
    pcie = made("{count: 2, gpus_per_node: 4, gpu: A100-80GB, intra: pcie}", "{fabric: none}")
    assert plain is not None
    assert pcie is not None
    assert pcie.link < 32e9 < plain.link
