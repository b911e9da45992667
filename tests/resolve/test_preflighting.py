"""What a job looks at before it starts: by its nodes, its GPUs, its network, and its wish."""

from __future__ import annotations

import subprocess

import pytest

from jobgen.model.part_plans import PreflightPlan
from tests.resolve.made import CPUS, GPUS, LOCAL, job, plan

CARDS = GPUS.replace(
    "{fabric: infiniband}", "{fabric: infiniband, nics: 8, nic_gbps: 200, socket_ifname: ib0}"
)
REQUEUE = "{requeue: true}"


def looked(cluster: str = GPUS, **keys: str) -> dict[str, str]:
    """What is expected of a node: what → value; empty where nothing is looked at."""
    found = plan(job(**keys), cluster).preflight
    return dict(each.value.split("=", 1) for each in found.expect) if found else {}


def preflight(cluster: str = GPUS, **keys: str) -> PreflightPlan:
    found = plan(job(**keys), cluster).preflight
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("cluster", "keys", "said"),
    [
        (GPUS, {}, "auto"),
        (CPUS, {}, "auto"),
        (GPUS, {"nodes": "1"}, "auto"),
        (CPUS, {"nodes": "1"}, "off"),
        (GPUS, {"nodes": "1", "gpus_per_node": "1"}, "off"),
        (GPUS, {"nodes": "1", "launcher": "plain"}, "off"),
        (GPUS, {"nodes": "2", "gpus_per_node": "1"}, "auto"),
        (GPUS, {"nodes": "1", "gpus_per_node": "1", "preflight": "full"}, "full"),
        (LOCAL, {}, "off"),
        (GPUS, {"preflight": "off"}, "off"),
        (GPUS, {"preflight": "full"}, "full"),
        (LOCAL, {"preflight": "full"}, "full"),
    ],
)
def test_what_is_decided_is_said_with_why(cluster: str, keys: dict[str, str], said: str) -> None:
    made = plan(job(**keys), cluster)
    assert made.other["preflight"].value == said
    assert made.other["preflight"].why
    files = {file.path for file in made.files}
    assert (made.preflight is None) == (said == "off") == ("preflight.sh" not in files)
    assert ("preflight_full.sh" in files) == (said == "full")
    assert (
        sum(path.startswith("preflight") for path in files)
        == {"off": 0, "auto": 1, "full": 4}[said]
    )


def test_off_leaves_nothing_in_the_script() -> None:
    from jobgen.render import render
    from tests.golden.cases import templates

    bundle = render(plan(job(preflight="off")), templates())
    assert b"preflight" not in bundle["job.sbatch"].content.lower()


def test_on_infiniband_the_ports_are_checked() -> None:
    assert looked(CARDS) == {
        "gpus": "8",
        "shm": "512",
        "ports": "8",
        "named": "^()[^ :]*:[0-9]+ InfiniBand",
        "gbps": "200",
        "srun": "--gpus-per-node=8 --gpu-bind=none",
    }
    assert looked(CARDS, preflight="full").items() - looked(CARDS).items() == {
        ("memlock", "1048576"),
        ("interface", "^(ib0) "),
        ("env", "NCCL_DEBUG,NCCL_NET,NCCL_SOCKET_IFNAME"),
    }


@pytest.mark.parametrize(
    ("network", "missing", "there"),
    [
        ("{fabric: ethernet, socket_ifname: eth0}", {"gbps"}, {"ports", "named"}),
        ("{fabric: efa, nics: 4, nic_gbps: 100}", {"gbps"}, {"ports"}),
        ("{fabric: none}", {"ports", "named"}, {"gpus"}),
    ],
)
def test_each_fabric_has_its_own(network: str, missing: set[str], there: set[str]) -> None:
    found = looked(GPUS.replace("{fabric: infiniband}", network))
    assert not missing & set(found)
    assert there <= set(found)


def test_on_one_node_no_network_is_checked() -> None:
    assert set(looked(CARDS, nodes="1")) == {"gpus", "shm"}


def test_without_gpus_neither_rdma_ports_nor_gpus() -> None:
    found = looked(CPUS.replace("{fabric: ethernet}", "{fabric: infiniband, socket_ifname: ib0}"))
    assert found == {"shm": "128", "ports": "1", "named": "^(ib0) "}


@pytest.mark.parametrize(
    ("hca", "ports"), [("mlx5_0,mlx5_1,mlx5_4", "3"), ("mlx5", "1"), ("^mlx5_2", "1")]
)
def test_where_the_profile_has_no_number_the_named_ports_are_counted(hca: str, ports: str) -> None:
    network = f"{{fabric: infiniband, ib_hca: '{hca}'}}"
    found = looked(GPUS.replace("{fabric: infiniband}", network))
    assert found["ports"] == ports


NAMES = ("mlx5_0:1", "mlx5_1:1", "mlx5_10:1", "mlx5_10:2", "ib0", "eth0.7", "eth0x7", "lo")


@pytest.mark.parametrize(
    ("variable", "value", "chosen"),
    [
        ("NCCL_IB_HCA", "=mlx5_0,mlx5_1", "mlx5_0:1 mlx5_1:1"),
        ("NCCL_IB_HCA", "=mlx5_1", "mlx5_1:1"),
        ("NCCL_IB_HCA", "mlx5_1", "mlx5_1:1 mlx5_10:1 mlx5_10:2"),
        ("NCCL_IB_HCA", "mlx5", "mlx5_0:1 mlx5_1:1 mlx5_10:1 mlx5_10:2"),
        ("NCCL_IB_HCA", "^mlx5_10", "mlx5_0:1 mlx5_1:1"),
        ("NCCL_IB_HCA", "^=mlx5_1", "mlx5_0:1 mlx5_10:1 mlx5_10:2"),
        ("NCCL_IB_HCA", "=mlx5_10:2,mlx5_0", "mlx5_0:1 mlx5_10:2"),
        ("NCCL_IB_HCA", "=mlx5_1:2", ""),
        ("NCCL_SOCKET_IFNAME", "=ib0", "ib0"),
        ("NCCL_SOCKET_IFNAME", "eth0.7", "eth0.7"),
        ("NCCL_SOCKET_IFNAME", "eth,ib", "ib0 eth0.7 eth0x7"),
        ("NCCL_SOCKET_IFNAME", "^eth", "ib0"),
    ],
)
def test_the_ports_are_those_that_nccl_would_take(variable: str, value: str, chosen: str) -> None:
    """``=`` means whole names, nothing prefixes, ``^`` all others, but not loopback."""
    rdma = variable == "NCCL_IB_HCA"
    cluster = CARDS if rdma else GPUS.replace("{fabric: infiniband}", "{fabric: ethernet}")
    found = looked(cluster, env=f"{{{variable}: '{value}'}}")
    script = """named=$1 but=$2 layer=$3
    for name in "${@:4}"; do
        [[ $name != *:* ]] || name+=" $layer"
        [[ $name == *:* ]] || name+=" "
        [[ ! $name =~ $named || $name =~ $but ]] || echo "${name% *}"
    done"""
    words = [found["named"], found.get("but", "^$"), "InfiniBand", *NAMES]
    done = subprocess.run(["bash", "-c", script, "-", *words], capture_output=True, text=True)
    assert done.stdout.split() == chosen.split()


def test_what_the_user_sets_is_what_is_checked() -> None:
    found = looked(CARDS, preflight="full", env="{NCCL_SOCKET_IFNAME: eth1, NCCL_ALGO: Ring}")
    assert found["interface"] == "^(eth1)[^ :]* "
    assert "NCCL_ALGO" in found["env"].split(",")
    found = looked(CARDS, preflight="full", env="{NCCL_SOCKET_IFNAME: $MY_IF}")
    assert found["interface"] == "^(ib0) "


@pytest.mark.parametrize(
    ("cluster", "keys", "stops", "excludes"),
    [
        (GPUS, {}, True, False),
        (GPUS, {"checkpoint": REQUEUE}, True, True),
        (GPUS, {"checkpoint": REQUEUE, "nodes": "8"}, True, False),
        (GPUS, {"checkpoint": REQUEUE, "slurm": "{nodelist: 'n[1-2]'}"}, True, False),
        (GPUS, {"nodes": "1:2"}, False, False),
        (LOCAL, {"checkpoint": REQUEUE, "preflight": "full"}, True, False),
    ],
)
def test_what_becomes_of_a_bad_node(
    cluster: str, keys: dict[str, str], stops: bool, excludes: bool
) -> None:
    found = preflight(cluster, **keys)
    assert (found.stops, found.excludes) == (stops, excludes)


def test_full_expects_what_the_links_can_carry_only_of_whole_nodes() -> None:
    words = preflight(CARDS, preflight="full").measures
    assert words is not None
    assert words[0] == "busbw=185"
    assert "oci-hpc" in words[1]
    assert preflight(CARDS, preflight="full", gpus_per_node="4").measures == ()
    assert preflight(CPUS, preflight="full").measures == ()
    assert preflight(CARDS).measures is None
