"""What an all-reduce can reach: by the vendors' figures where there are any, else by the links."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobgen.app.world import World
from jobgen.catalog import find_shipped
from jobgen.fabric import limits
from jobgen.load import load_cluster
from jobgen.model.cluster import ClusterProfile


def shipped_profile(name: str) -> ClusterProfile:
    path = find_shipped("clusters") / f"{name}.yaml"
    return load_cluster(path.read_text(), path.name).value


def made(nodes: str, network: str) -> ClusterProfile:
    text = (
        "name: c1\nscheduler: slurm\npaths: {root: /scratch/jobgen}\n"
        f"nodes: {nodes}\nnetwork: {network}\n"
    )
    return load_cluster(text, "c1.yaml").value


@pytest.mark.parametrize(
    ("name", "rate", "least"),
    [("a100x16", 200e9, 185e9), ("dgx-h100", 400e9, 440e9), ("aws-p4d", 50e9, 40e9)],
)
def test_between_nodes(name: str, rate: float, least: float) -> None:
    found = limits.find_network_limit(shipped_profile(name))
    assert found is not None
    assert (found.rate, found.expected) == (rate, least)
    assert found.source


def test_a_gate_between_two_nodes_says_nothing_of_more_nor_of_other_networks() -> None:
    four = limits.find_limit(shipped_profile("dgx-h100"), 4)
    assert four is not None
    assert four.expected == pytest.approx(0.8 * 400e9)
    efa = limits.find_limit(shipped_profile("aws-p5"), 2)
    assert efa is not None
    assert efa.expected == pytest.approx(0.8 * 400e9)


def test_inside_a_node() -> None:
    found = limits.find_link_limit(shipped_profile("a100x16"))
    assert found is not None
    assert (found.rate, found.expected) == (300e9, 228e9)
    assert "nd96amsr_a100_v4" in found.source


def test_a_gate_holds_only_for_machines_with_links_as_fast() -> None:
    nodes = "{count: 2, gpus_per_node: 8, gpu: H100-SXM5-80GB, intra: nvswitch}"
    found = limits.find_network_limit(made(nodes, "{fabric: ethernet, nics: 1, nic_gbps: 100}"))
    assert found is not None
    assert found.expected == pytest.approx(0.8 * 12.5e9)
    four = nodes.replace("gpus_per_node: 8", "gpus_per_node: 4")
    found = limits.find_link_limit(made(four, "none"))
    assert found is not None
    assert found.expected == pytest.approx(0.8 * 450e9)


def test_pcie_has_a_limit_but_no_expectation() -> None:
    nodes = "{count: 1, gpus_per_node: 4, gpu: L40S-48GB, intra: pcie}"
    found = limits.find_link_limit(made(nodes, "none"))
    assert found is not None
    assert found.rate > 0
    assert found.expected == 0


@pytest.mark.parametrize("network", ["none", "ethernet", "{fabric: ethernet, nics: 2}"])
def test_nothing_is_made_up_of_a_network_whose_rate_is_not_said(network: str) -> None:
    profile = made("{count: 4}", network)
    assert limits.find_network_limit(profile) is None
    assert limits.find_link_limit(profile) is None


def test_a_network_without_gpus_counts_its_cards() -> None:
    found = limits.find_limit(made("{count: 4}", "{fabric: ethernet, nic_gbps: 10}"), 4)
    assert found is not None
    assert found.rate == 1.25e9
    assert "1 x 10 Gb/s" in found.why


@pytest.mark.parametrize(
    "path", sorted(find_shipped("clusters").glob("*.yaml")), ids=lambda p: p.stem
)
def test_every_shipped_profile_has_a_limit_that_makes_sense(path: Path) -> None:
    profile = World.here().open_catalog().find_cluster(path.stem)
    loaded = load_cluster(profile.text, profile.label, parent=profile.parent).value
    for nodes in (1, 2):
        found = limits.find_limit(loaded, nodes)
        if found is None:
            assert nodes == 1 or loaded.network.nic_gbps is None
            continue
        assert 1e9 <= found.rate <= 2e12
        assert found.expected <= 1.2 * found.rate
        assert found.source
