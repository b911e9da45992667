"""What each network asks of a job, and nothing more."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest

from jobgen.data.env_variables import nccl_variables
from jobgen.errors import Place
from jobgen.fabric import FABRICS, configure_network
from jobgen.model.cluster import ClusterProfile
from jobgen.model.network import Fabric
from jobgen.model.part_plans import Mount
from jobgen.model.plan import Part, Shape


def part(*, gpus: int = 8, ranks: int = 8, count: int = 2, **profile: Any) -> Part:
    """The part of a job of so many nodes and GPUs, on a cluster with these keys."""
    nodes = {"count": 18, "gpus_per_node": gpus} | ({"gpu": "H100-80GB"} if gpus else {})
    keys = {"name": "c", "scheduler": "slurm", "paths": {"root": "/r"}}
    profile["nodes"] = nodes | profile.get("nodes", {})
    cluster = ClusterProfile.read(keys | profile)
    shape = Shape(count, ranks, gpus, 8, 1, 3600, gpu="")
    found = configure_network(cluster, shape, lambda *path: Place("c:" + ".".join(path)))
    assert all(
        setting.why and setting.place.file.startswith("c:") for setting in found.env.values()
    )
    lines = (*found.scripts, *found.setup)
    assert all(line.why and line.place.file.startswith("c:") for line in lines)
    return found


def values(part: Part) -> dict[str, str]:
    return {name: setting.value for name, setting in part.env.items()}


def env(
    *, gpus: bool = True, nodes: int = 2, versions: dict[str, str] | None = None, **network: Any
) -> dict[str, str]:
    return values(part(gpus=8 * gpus, count=nodes, network=network, versions=versions or {}))


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


def test_a_gid_index_is_for_old_nccl_and_an_address_range_for_new() -> None:
    network: dict[str, Any] = {"fabric": "roce", "gid_index": 3, "addr_range": "10.20.0.0/16"}
    old = env(versions={"nccl": "2.20.5"}, **network)
    new = env(versions={"nccl": "2.21.5"}, **network)
    assert old == {"NCCL_NET": "IB", "NCCL_IB_GID_INDEX": "3"}
    assert new == {"NCCL_NET": "IB", "NCCL_IB_ADDR_RANGE": "10.20.0.0/16"}
    rccl = env(versions={"rccl": "2.21.5"}, **network)
    assert rccl == new


def test_a_gid_index_that_is_left_out_is_said_so() -> None:
    found = part(network={"fabric": "roce", "gid_index": 3}, versions={"nccl": "2.27"})
    assert [note.code for note in found.notes] == ["J184"]
    assert not part(network={"fabric": "roce", "gid_index": 3}, versions={"nccl": "2.18"}).notes


def test_the_family_of_addresses_is_said_only_where_it_is_not_the_default() -> None:
    assert env(fabric="roce", addr_range="fd00:20::/64") == {
        "NCCL_NET": "IB",
        "NCCL_IB_ADDR_FAMILY": "AF_INET6",
        "NCCL_IB_ADDR_RANGE": "fd00:20::/64",
    }


@pytest.mark.parametrize(
    ("nccl", "there"), [("2.22.2", False), ("2.22.3", True), ("2.27", True), ("", True)]
)
def test_control_messages_have_a_class_of_their_own_from_2_22_3(nccl: str, there: bool) -> None:
    network: dict[str, Any] = {"fabric": "roce", "traffic_class": 52, "fifo_traffic_class": 84}
    found = env(versions={"nccl": nccl} if nccl else {}, **network)
    assert found["NCCL_IB_TC"] == "52"
    assert (found.get("NCCL_IB_FIFO_TC") == "84") is there


@pytest.mark.parametrize(
    ("plug_in", "more"),
    [
        ("", {}),
        ("1.7.4", {}),
        ("1.6.0", {"FI_EFA_USE_DEVICE_RDMA": "1"}),
        (
            "1.5.0",
            {"FI_EFA_USE_DEVICE_RDMA": "1", "FI_PROVIDER": "efa", "NCCL_PROTO": "simple"},
        ),
    ],
)
def test_an_old_plug_in_for_efa_is_told_what_a_new_one_knows(
    plug_in: str, more: dict[str, str]
) -> None:
    usual = {"NCCL_NET": "AWS Libfabric", "NCCL_SOCKET_IFNAME": "^docker,lo,veth"}
    assert env(fabric="efa", versions={"ofi_nccl": plug_in} if plug_in else {}) == usual | more


def test_slingshot_is_reached_through_its_plug_in() -> None:
    found = env(fabric="slingshot", socket_ifname="hsn0,hsn1")
    assert found["NCCL_NET"] == "AWS Libfabric"
    assert found["NCCL_SOCKET_IFNAME"] == "=hsn0,hsn1"
    assert found["NCCL_NET_GDR_LEVEL"] == "PHB"


def test_tcpx_has_the_whole_list_of_its_vendor_or_nothing() -> None:
    network = {"fabric": "tcpx", "socket_ifname": "enp0s12", "data_ifname": "enp6s0,enp12s0"}
    found = part(network=network)
    assert values(found)["NCCL_GPUDIRECTTCPX_CTRL_DEV"] == "enp0s12"
    assert values(found)["NCCL_GPUDIRECTTCPX_SOCKET_IFNAME"] == "enp6s0,enp12s0"
    assert values(found)["NCCL_ALGO"] == "Ring"
    assert len(found.env) > 17
    assert Mount("/var/lib/tcpx/lib64", "/var/lib/tcpx/lib64") in found.mounts
    alone = part(count=1, network=network)
    assert (alone.env, alone.scripts, alone.setup, alone.mounts) == ({}, (), (), ())


def test_tcpxo_sources_its_vendors_script_and_sets_what_the_vendors_run_scripts_set() -> None:
    found = part(network={"fabric": "tcpxo", "socket_ifname": "enp0s12", "data_ifname": "enp6s0"})
    assert values(found) == {
        "GLOO_SOCKET_IFNAME": "enp0s12",
        "NCCL_NET": "FasTrak",
        "NCCL_SOCKET_IFNAME": "enp0s12",
        "NCCL_FASTRAK_CTRL_DEV": "enp0s12",
        "NCCL_FASTRAK_IFNAME": "enp6s0",
        "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY": "/dev/aperture_devices",
    }
    there, source, path = (line.value for line in (*found.scripts, *found.setup))
    assert "die" in there
    assert source.endswith("source /var/lib/tcpxo/lib64/nccl-env-profile.sh")
    assert "LD_LIBRARY_PATH=/var/lib/tcpxo/lib64" in path


def test_gib_sources_its_vendors_script() -> None:
    found = part(network={"fabric": "gib", "socket_ifname": "enp0s19,enp192s20"})
    assert values(found)["NCCL_NET"] == "gIB"
    assert values(found)["NCCL_SOCKET_IFNAME"] == "enp0s19,enp192s20"
    assert found.scripts[1].value == "source /usr/local/gib/scripts/set_nccl_env.sh"
    assert found.mounts == (Mount("/usr/local/gib", "/usr/local/gib"),)


@pytest.mark.parametrize("fabric", ["tcpxo", "gib", "tcpx"])
def test_a_plug_in_that_is_missing_ends_the_job_with_its_name(fabric: str) -> None:
    missing = part(network={"fabric": fabric})
    first = (*missing.scripts, *missing.setup)[0].value
    script = f'die() {{ echo "$1 $2"; exit "$1"; }}\n{first}\necho went on'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 96
    assert "is not installed on this node" in done.stdout
    assert "went on" not in done.stdout


def test_a_plug_in_that_is_there_says_the_rest(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "set_nccl_env.sh").write_text("export NCCL_TESTED=yes\n")
    found = part(network={"fabric": "gib"})
    lines = [line.value for line in (*found.scripts, *found.setup)]
    script = "\n".join([*lines, 'echo "$NCCL_TESTED $LD_LIBRARY_PATH"'])
    script = script.replace("/usr/local/gib", str(tmp_path))
    for before, after in ({}, ""), ({"LD_LIBRARY_PATH": "/x"}, ":/x"):
        words = ["/bin/bash", "-uc", script]
        done = subprocess.run(words, env=before, capture_output=True, text=True, check=True)
        assert done.stdout == f"yes {tmp_path}/lib64{after}\n"


def test_cards_without_peer_access_need_a_word_on_one_node_too() -> None:
    nodes = {"gpu": "RTX-4090", "peer_access": False}
    for count in (1, 2):
        found = part(count=count, nodes=nodes, network={"fabric": "ethernet"})
        assert values(found)["NCCL_P2P_DISABLE"] == "1"
    assert "NCCL_P2P_DISABLE" not in part(nodes={"gpu": "RTX-3090"}).env
    assert "NCCL_P2P_DISABLE" not in part(gpus=1, count=1, nodes=nodes).env


@pytest.mark.parametrize(("driver", "there"), [("535.54", True), ("550.40.07", False)])
def test_a_driver_that_knows_it_needs_no_word(driver: str, there: bool) -> None:
    nodes = {"gpu": "RTX-4090", "peer_access": False}
    found = part(count=1, nodes=nodes, versions={"driver": driver})
    assert ("NCCL_P2P_DISABLE" in found.env) is there
    switch = part(nodes={"gpu": "L40S", "peer_access": False}, versions={"driver": driver})
    assert "NCCL_P2P_DISABLE" in switch.env


@pytest.mark.parametrize(
    ("nccl", "names"),
    [
        ("", {"NCCL_MNNVL_ENABLE"}),
        ("2.20.5", set()),
        ("2.26.2", {"NCCL_MNNVL_ENABLE", "NCCL_NET_GDR_C2C"}),
        ("2.27.3", {"NCCL_MNNVL_ENABLE"}),
    ],
)
def test_a_rack_that_is_one_nvlink_domain_is_expected_to_be_one(nccl: str, names: set[str]) -> None:
    nodes = {"gpu": "GB200", "gpus_per_node": 4, "nvlink_nodes": 18}
    found = part(gpus=4, nodes=nodes, versions={"nccl": nccl} if nccl else {})
    assert set(found.env) == names
    assert part(gpus=4, count=1, nodes=nodes).env == {}


def test_a_variable_of_the_profile_brings_its_why_and_its_source() -> None:
    entry = {"value": 1, "why": "PCIe behind a hypervisor", "source": "https://example.org"}
    found = part(network={"fabric": "none", "env": {"A": entry, "B": 2}})
    assert found.env["A"].why == "PCIe behind a hypervisor; source: https://example.org"
    assert found.env["B"].why == "set by the site for its network"


def test_every_network_has_a_function() -> None:
    assert set(FABRICS) == set(get_args(Fabric))


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
