"""What each network asks of a job, and nothing more."""

from __future__ import annotations

from typing import Any

import pytest

from jobgen.data import nccl_variables
from jobgen.fabric import fabric
from jobgen.model.cluster import Network


def env(*, gpus: bool = True, nodes: int = 2, **network: Any) -> dict[str, str]:
    part = fabric(
        Network.read(network), gpus=gpus, nodes=nodes, place=lambda *p: "c:" + ".".join(p)
    )
    assert all(setting.why and setting.place.startswith("c:") for setting in part.env.values())
    return {name: setting.value for name, setting in part.env.items()}


def test_infiniband_says_which_network_and_which_cards() -> None:
    assert env(fabric="infiniband", ib_hca="mlx5_0,mlx5_1", socket_ifname="ib0") == {
        "NCCL_NET": "IB",
        "NCCL_IB_HCA": "=mlx5_0,mlx5_1",
        "NCCL_SOCKET_IFNAME": "=ib0",
        "GLOO_SOCKET_IFNAME": "ib0",
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("mlx5_1", "=mlx5_1"),
        ("mlx5_0:1,mlx5_3:1", "=mlx5_0:1,mlx5_3:1"),
        ("ibp24s0,ibp64s0", "=ibp24s0,ibp64s0"),
        ("mlx5_bond_0", "=mlx5_bond_0"),
        ("mlx5", "mlx5"),
        ("ibp", "ibp"),
        ("^mlx5_4", "^mlx5_4"),
        ("=mlx5_0", "=mlx5_0"),
    ],
)
def test_whole_names_of_cards_are_exact_and_prefixes_stay_prefixes(
    written: str, meant: str
) -> None:
    assert env(fabric="infiniband", ib_hca=written)["NCCL_IB_HCA"] == meant


def test_roce_leaves_the_gid_to_nccl_unless_the_profile_names_it() -> None:
    assert env(fabric="roce", ib_hca="mlx5_0") == {"NCCL_NET": "IB", "NCCL_IB_HCA": "=mlx5_0"}
    old = env(fabric="roce", gid_index=3, traffic_class=106)
    assert old == {"NCCL_NET": "IB", "NCCL_IB_GID_INDEX": "3", "NCCL_IB_TC": "106"}


def test_ethernet_takes_more_sockets_only_where_one_stream_is_too_slow() -> None:
    assert env(fabric="ethernet", nic_gbps=25) == {"NCCL_NET": "Socket"}
    fast = env(fabric="ethernet", nic_gbps=100)
    assert fast["NCCL_SOCKET_NTHREADS"] == fast["NCCL_NSOCKS_PERTHREAD"] == "4"


def test_efa_leaves_its_plug_in_alone() -> None:
    assert env(fabric="efa") == {
        "NCCL_NET": "AWS Libfabric",
        "NCCL_SOCKET_IFNAME": "^docker,lo,veth",
    }
    assert env(fabric="efa", socket_ifname="ens32")["NCCL_SOCKET_IFNAME"] == "=ens32"


def test_no_network_and_one_node_need_nothing() -> None:
    assert env(fabric="none") == {}
    assert env(nodes=1, fabric="infiniband", ib_hca="mlx5_0", socket_ifname="ib0") == {}


def test_without_gpus_only_gloo_is_told_its_interface() -> None:
    network: dict[str, Any] = {"fabric": "roce", "ib_hca": "mlx5_0", "socket_ifname": "=bond0"}
    site = {"env": {"NCCL_IB_SL": "1", "UCX_TLS": "tcp"}}
    assert env(gpus=False, **network, **site) == {"GLOO_SOCKET_IFNAME": "bond0", "UCX_TLS": "tcp"}


def test_gloo_is_told_nothing_that_it_cannot_read() -> None:
    assert "GLOO_SOCKET_IFNAME" not in env(fabric="none", socket_ifname="^docker0")


def test_a_fact_of_the_site_wins() -> None:
    assert env(fabric="infiniband", env={"NCCL_NET": "Own", "NCCL_IB_SL": "1"}) == {
        "NCCL_NET": "Own",
        "NCCL_IB_SL": "1",
    }


@pytest.mark.parametrize("kind", ["infiniband", "roce", "ethernet", "efa", "none"])
def test_every_variable_is_one_that_nccl_reads(kind: str) -> None:
    known = nccl_variables()
    found = env(
        fabric=kind,
        ib_hca="mlx5_0",
        socket_ifname="eth0",
        nic_gbps=400,
        gid_index=3,
        traffic_class=41,
    )
    assert all(name in known for name in found if name.startswith("NCCL_"))
