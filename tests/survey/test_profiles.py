"""From a site's answers to the lines of a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobgen.load import check, load_cluster
from jobgen.shell import Result
from jobgen.survey import choice, compare, write
from jobgen.survey.draft import Draft, Gap, ProfileLine, WritableFolder, parse_folders
from jobgen.survey.node_profile import Probe, probe
from jobgen.survey.slurm_site import SlurmSite
from tests.survey.sites import answers, made, of_nodes, survey

FACTS = Path(__file__).parents[1] / "facts" / "hardware"


def values(draft: Draft) -> dict[str, Any]:
    return {".".join(one.path): one.value for one in draft.lines}


def how(draft: Draft) -> dict[str, str]:
    return {".".join(one.path): one.how for one in draft.lines}


def gaps(draft: Draft) -> dict[str, Gap]:
    return {".".join(one.path): one for one in draft.gaps}


def of(
    release: str, node: Probe | None = None, told: dict[str, str] | None = None, **words: Any
) -> Draft:
    found = made(survey(answers(release, **(told or {}))), node, **words)
    assert found is not None
    assert check(found[1], "x").problems == (), found[1]
    return found[0]


def node(**tools: str) -> Probe:
    """A node n1 whose tools say these files; words as they stand."""
    frames = [("host", "n1"), ("internet", "no"), ("route", "10.0.0.4 dev eth0 src 10.0.0.3")]
    for name, text in tools.items():
        if name in ("gpu", "topo", "ibstat", "ibv", "efa", "ip", "lscpu"):
            frames += [(f"{name}.out", text), (f"{name}.code", "0")]
        else:
            frames.append((name, text))
    found = probe([*frames, ("end", "n1")])
    assert found is not None
    return found


def fact(name: str) -> str:
    return (FACTS / f"{name}.txt").read_text()


@pytest.mark.parametrize("release", ["22.05", "24.11", "26.05"])
def test_every_line_says_how_it_was_found(release: str) -> None:
    draft = of(release)
    assert all(one.how for one in draft.lines)
    assert values(draft)["slurm_version"] == release
    assert values(draft)["nodes.gpus_per_node"] == 8
    assert how(draft)["slurm_version"].startswith("scontrol show config: SLURM_VERSION")


def test_accounts_and_limits_come_from_the_accounting() -> None:
    draft = of("24.11")
    assert values(draft)["defaults.slurm.account"] == "lab42"
    assert how(draft)["defaults.slurm.account"].endswith("your default account; also vision")
    assert values(draft)["limits.time"] == "3-00:00:00"
    assert how(draft)["limits.time"] == "sacctmgr show assoc: MaxWall of account lab42"
    draft = of("24.11", partition="lab")
    assert values(draft)["limits.time"] == "00:30:00"
    assert "defaults.slurm.qos" not in values(draft)


def test_the_qos_that_is_used_has_a_limit_too() -> None:
    draft = of("24.11", qos="urgent")
    assert values(draft)["limits.time"] == "04:00:00"
    assert how(draft)["limits.time"] == "sacctmgr show qos: MaxWall of urgent"
    draft = of("24.11", told={"assoc": "testbed|lab42||long|long|\n"})
    assert values(draft)["limits.time"] == "2-00:00:00"


def test_without_accounting_no_account_is_invented() -> None:
    draft = of("26.05")
    assert "defaults.slurm.account" not in values(draft)
    assert "accounting storage is disabled" in gaps(draft)["defaults.slurm.account"].why
    assert values(draft)["accounting"] == "none"


def test_several_accounts_and_no_default_are_left_open() -> None:
    draft = of("24.11", told={"user": "ann|\n"})
    assert gaps(draft)["defaults.slurm.account"].maybe == ("lab42", "vision")
    assert (
        values(of("24.11", told={"user": "ann|\n"}, account="vision"))["defaults.slurm.account"]
        == "vision"
    )


def test_a_partition_for_other_accounts_leaves_none() -> None:
    other = "PartitionName=gpu AllowAccounts=physics State=UP Nodes=n[1-2] MaxTime=UNLIMITED\n"
    draft = of("24.11", told={"partition": other})
    assert "no account of yours may use" in gaps(draft)["defaults.slurm.account"].why


MIXED = """\
NodeName=g1 CPUTot=128 Gres=gpu:a100:2(S:0),gpu:a100_1g.5gb:14(S:1) State=IDLE Partitions=gpu
NodeName=g2 CPUTot=128 Gres=gpu:a100_1g.5gb:28 RealMemory=510000 State=IDLE Partitions=gpu,mig
NodeName=g3 CPUTot=128 Gres=gpu:a100_1g.5gb:28 RealMemory=510000 State=IDLE Partitions=gpu,mig
"""


def test_whole_gpus_are_taken_before_slices() -> None:
    draft = of("24.11", told={"node": MIXED, "partition": ""})
    found = values(draft)
    assert (found["nodes.count"], found["nodes.gpus_per_node"]) == (1, 2)
    assert (found["gpu_request"], found["gpu_type"]) == ("gres-typed", "a100")
    assert found["defaults.slurm.partition"] == "gpu"
    assert "nodes of this kind also have 14 a100_1g.5gb: not in this profile" in draft.notes


def test_memory_that_the_site_has_not_told_slurm_is_left_open() -> None:
    assert "nodes.mem" in gaps(of("24.11", told={"node": MIXED.replace("510000", "1")}))


def test_what_the_system_keeps_is_said() -> None:
    line = (
        "NodeName=n1 CPUEfctv=62 CPUTot=64 RealMemory=9000 MemSpecLimit=1000 Gres=gpu:l4:1 "
        "State=IDLE Partitions=gpu\n"
    )
    draft = of("24.11", told={"node": line})
    assert (values(draft)["nodes.cpus"], values(draft)["nodes.mem"]) == (62, "8000MiB")
    assert how(draft)["nodes.cpus"].endswith("CPUTot, less what the system keeps")


def test_a_partition_that_lets_the_user_in_is_taken_before_a_larger_one() -> None:
    text = (
        "NodeName=n1 CPUTot=8 Gres=gpu:l4:8 State=IDLE Partitions=big,admin\n"
        "NodeName=n2 CPUTot=8 Gres=gpu:l4:1 State=IDLE Partitions=ours\n"
        "NodeName=n3 CPUTot=8 Gres=(null) State=IDLE Partitions=cpu\n"
    )
    parts = (
        "PartitionName=admin RootOnly=YES State=UP Nodes=n1\n"
        "PartitionName=big AllowAccounts=physics State=UP Nodes=n1\n"
        "PartitionName=ours AllowGroups=vision,users State=UP Nodes=n2\n"
        "PartitionName=cpu Default=YES State=UP Nodes=n3\n"
    )
    draft = of("24.11", told={"node": text, "partition": parts})
    assert values(draft)["defaults.slurm.partition"] == "ours"
    assert any("it has the most GPUs that are open to you" in note for note in draft.notes)
    assert any("for the Unix groups vision, users" in note for note in draft.notes)
    only = text.replace("Partitions=ours", "Partitions=cpu").replace("gpu:l4:1", "(null)")
    draft = of("24.11", told={"node": only, "partition": parts})
    assert values(draft)["defaults.slurm.partition"] == "big"
    assert "no account of yours may use" in gaps(draft)["defaults.slurm.account"].why


def test_the_partitions_own_qos_limits_the_time() -> None:
    line = "PartitionName=gpu QoS=juno State=UP Nodes=n[1-2] MaxTime=UNLIMITED\n"
    draft = of("24.11", told={"partition": line, "qos": "normal||\njuno|02:00:00|\n"})
    assert values(draft)["limits.time"] == "02:00:00"
    assert how(draft)["limits.time"] == "sacctmgr show qos: MaxWall of juno"


def test_the_time_of_jobs_that_set_none_is_taken_from_the_partition() -> None:
    line = "PartitionName=gpu State=UP Nodes=n[1-2] DefaultTime={} MaxTime=UNLIMITED\n"
    draft = of("24.11", told={"partition": line.format("01:30:00")})
    assert values(draft)["limits.default_time"] == "01:30:00"
    assert how(draft)["limits.default_time"] == "scontrol show partition: DefaultTime of gpu"
    none = of("24.11", told={"partition": line.format("NONE")})
    assert "limits.default_time" not in values(none)


def test_the_databases_lower_case_is_the_same_name() -> None:
    """And what it says of another cluster of the site is not taken for this one."""
    line = "PartitionName=GPU AllowAccounts=Lab42 AllowQos=Long State=UP Nodes=n[1-2]\n"
    draft = of(
        "24.11",
        told={
            "config": "ClusterName = TestBed\nSLURM_VERSION = 24.11.5\n",
            "node": "NodeName=n1 CPUTot=8 Gres=gpu:l4:2 State=IDLE Partitions=GPU\n",
            "partition": line,
            "assoc": "testbed|lab42|gpu|long|normal|\nother|lab42|||x|00:10:00\nother|b||||\n",
            "qos": "long|1-00:00:00|\n",
        },
    )
    assert values(draft)["defaults.slurm.account"] == "lab42"
    assert values(draft)["defaults.slurm.qos"] == "long"
    assert values(draft)["limits.time"] == "1-00:00:00"


def test_what_joins_gpus_is_no_question_where_there_are_none() -> None:
    cpus = "NodeName=n1 CPUTot=8 Gres=(null) State=IDLE Partitions=cpu\n"
    assert "nodes.intra" not in gaps(of("24.11", told={"node": cpus, "partition": ""}))
    assert "nodes.intra" in gaps(of("24.11"))


def test_one_qos_of_the_partitions_is_written_and_two_are_not() -> None:
    line = "PartitionName=gpu AllowQos={} State=UP Nodes=n[1-2] MaxTime=UNLIMITED\n"
    draft = of("24.11", told={"partition": line.format("long,urgent")})
    assert values(draft)["defaults.slurm.qos"] == "long"
    both = "testbed|lab42||long,urgent|normal|\n"
    draft = of("24.11", told={"partition": line.format("long,urgent"), "assoc": both})
    assert gaps(draft)["defaults.slurm.qos"].maybe == ("long", "urgent")


def test_scratch_is_taken_before_the_home() -> None:
    draft = of("24.11")
    assert values(draft)["paths.root"] == "/scratch/$USER/jobgen"
    assert how(draft)["paths.root"] == (
        "$SCRATCH, yours to write, 9283 GiB free; lustre, which other machines see too"
    )
    assert values(of("24.11", root="/data/x"))["paths.root"] == "/data/x"


def test_folders_are_read() -> None:
    text = "HOME nfs 5 /home/ann/\nSCRATCH lustre x /s\n- ext2/ext3 7 /a b\n\nnonsense"
    assert parse_folders(text) == (
        WritableFolder("HOME", "nfs", 5, "/home/ann"),
        WritableFolder("", "ext2/ext3", 7, "/a b"),
    )


def test_sinfo_tells_where_scontrol_does_not() -> None:
    draft = of("26.05", told={"node": "", "partition": ""})
    assert values(draft)["nodes.count"] == 1
    assert values(draft)["nodes.mem"] == "512000MiB"
    assert how(draft)["nodes.count"].startswith("sinfo")
    assert values(draft)["limits.time"] == "7-00:00:00"


def test_an_old_selection_plugin_has_no_gpus_per_node() -> None:
    old = "SelectType = select/cons_res\nSLURM_VERSION = 20.11.9\nClusterName = testbed\n"
    alike = "NodeName=n1 CPUTot=8 RealMemory=900 Gres=gpu:t4:2 State=IDLE Partitions=gpu\n"
    draft = of("24.11", told={"config": old, "node": alike})
    assert values(draft)["gpu_request"] == "gres"
    assert values(draft)["nodes.gpu"] == "T4-16GB"


def test_nodes_that_differ_give_the_least() -> None:
    text = (
        "NodeName=n1 CPUTot=64 RealMemory=9000 Gres=gpu:l4:1 State=IDLE Partitions=gpu\n"
        "NodeName=n2 CPUTot=48 RealMemory=9500 Gres=gpu:l4:1 State=DOWN* Partitions=gpu\n"
    )
    draft = of("24.11", told={"node": text})
    assert values(draft)["nodes.cpus"] == 48
    assert how(draft)["nodes.cpus"].endswith("the least of them")
    assert "1 of them cannot be used now" in how(draft)["nodes.count"]


def test_a_node_with_infiniband_tells_its_cards() -> None:
    csv = "NVIDIA H100 80GB HBM3, 81559, 550.54.15\n" * 8
    told = node(gpu=csv, topo=fact("topo-h100-ib"), ibstat=fact("ibstat-h100-ib"))
    draft = of("24.11", told)
    assert values(draft)["nodes.gpu"] == "H100-SXM5-80GB"
    assert values(draft)["nodes.intra"] == "nvswitch"
    assert values(draft)["network.fabric"] == "infiniband"
    assert values(draft)["network.nic_gbps"] == 400
    assert values(draft)["network.socket_ifname"] == "eth0"
    assert values(draft)["versions.driver"] == "550.54.15"
    assert values(draft)["network.internet"] is False


def test_a_node_without_tools_is_read_from_sys() -> None:
    sys = "mlx5_0 1|InfiniBand|4: ACTIVE|200 Gb/sec (4X HDR)\nmlx5_1 1|Ethernet|1: DOWN|40 Gb/sec"
    draft = of("24.11", node(rdma=sys))
    assert values(draft)["network.fabric"] == "infiniband"
    assert values(draft)["network.ib_hca"] == "mlx5_0"
    assert values(draft)["network.nic_gbps"] == 200
    assert how(draft)["network.fabric"].startswith("/sys/class/infiniband on n1")
    assert "nvidia-smi is not on n1" in gaps(draft)["nodes.gpu"].why
    assert "A100-SXM4-80GB" in gaps(draft)["nodes.gpu"].maybe


@pytest.mark.parametrize(
    ("words", "fabric"),
    [
        ({"rdma": "mlx5_0 1|Ethernet|4: ACTIVE|100 Gb/sec (4X EDR)"}, "roce"),
        ({"rdma": ""}, "ethernet"),
        ({"links": "lo\nhsn0\nhsn1"}, "slingshot"),
        ({"efa": fact("fi_info-p4d")}, "efa"),
    ],
)
def test_the_fabric_is_what_the_node_has(words: dict[str, str], fabric: str) -> None:
    assert values(of("24.11", node(**words)))["network.fabric"] == fabric


@pytest.mark.parametrize(
    ("tools", "fabric", "nics"),
    [
        ({"ibv": fact("ibv_devinfo-efa")}, "efa", 1),
        ({"ibv": fact("ibv_devinfo-efa-2020")}, "efa", 1),
        ({"rdma": "rdmap16s27 1|Unspecified|4: ACTIVE|100 Gb/sec (4X EDR)"}, "efa", 1),
        ({"ibv": fact("ibv_devinfo-iwarp")}, "ethernet", 1),
        ({"rdma": "usnic_0 1|Unspecified|4: ACTIVE|10 Gb/sec"}, "ethernet", 1),
    ],
)
def test_a_card_that_is_neither_infiniband_nor_roce_is_not_called_so(
    tools: dict[str, str], fabric: str, nics: int
) -> None:
    found = values(of("24.11", node(**tools)))
    assert (found["network.fabric"], found["network.nics"]) == (fabric, nics)
    assert "network.ib_hca" not in found


def test_infiniband_that_is_not_up_is_left_open_and_not_called_ethernet() -> None:
    draft = of("24.11", node(ibstat=fact("ibstat-initializing")))
    gap = gaps(draft)["network.fabric"]
    assert gap.maybe == ("infiniband", "ethernet")
    assert gap.why == "ibstat on n1: no port of mlx5_0 is active"
    assert "network.nics" not in values(draft)


def test_the_cards_near_the_gpus_tell_the_fabric() -> None:
    """RoCE for training behind the PCIe switches, and one InfiniBand card for the storage."""
    table = "\tGPU0\tGPU1\tmlx5_0\tmlx5_1\nGPU0\tX\tNV4\tPIX\tSYS\nGPU1\tNV4\tX\tPIX\tSYS\n"
    sys = "mlx5_0 1|Ethernet|4: ACTIVE|400 Gb/sec\nmlx5_1 1|InfiniBand|4: ACTIVE|100 Gb/sec"
    found = values(of("24.11", node(topo=table, rdma=sys)))
    assert (found["network.fabric"], found["network.ib_hca"]) == ("roce", "mlx5_0")


def test_a_node_with_other_gpus_than_slurm_counts_is_noted() -> None:
    draft = of("24.11", node(gpu="NVIDIA A100-SXM4-40GB, 40960, 550.54.15\n" * 7))
    assert values(draft)["nodes.gpu"] == "A100-SXM4-40GB"
    assert "nvidia-smi on n1 shows 7 GPUs, and Slurm counts 8" in draft.notes


def test_little_memory_that_may_be_locked_is_noted() -> None:
    sys = "mlx5_0 1|InfiniBand|4: ACTIVE|200 Gb/sec (4X HDR)"
    draft = of("24.11", node(rdma=sys, memlock="64", shm="65536 60000"))
    assert any("locked on n1: 64 KiB" in note for note in draft.notes)
    assert any("n1 has 64 MiB of /dev/shm" in note for note in draft.notes)


def test_frames_that_were_cut_off_are_no_answer() -> None:
    assert probe([("host", "n1"), ("gpu.out", "x")]) is None


def test_the_default_partition_wins_among_equals() -> None:
    text = "NodeName=n1 CPUTot=8 RealMemory=9 Gres=gpu:l4:1 State=IDLE Partitions=a,b,c\n"
    parts = (
        "PartitionName=a State=UP MaxTime=UNLIMITED\nPartitionName=b Default=YES State=UP\n"
        "PartitionName=c State=DOWN\n"
    )
    found = survey(answers("24.11", node=text, partition=parts)).site
    chosen = choice.choose(found)
    assert chosen is not None
    assert chosen.partition.name == "b"
    assert [kind.partition for kind in chosen.elsewhere] == ["a", "c"]
    assert choice.choose(found, "c") is not None
    assert choice.choose(found, "d") is None
    assert choice.choose(SlurmSite()) is None


HOSTILE = st.text(st.characters(exclude_categories=()), max_size=40)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(HOSTILE, HOSTILE | st.booleans() | st.integers(0, 99)), max_size=4), HOSTILE
)
def test_no_words_of_others_break_out_of_their_line(rows: list[tuple[str, Any]], note: str) -> None:
    entries = [ProfileLine(("paths", f"k{n}"), value, why) for n, (why, value) in enumerate(rows)]
    text = write.format_profile((note,), Draft((*entries, Gap(("limits", "time"), note, (note,)))))
    lines = text.splitlines()
    assert text.isascii()
    assert len(lines) == 1 + bool(rows) + len(rows) + 2
    assert lines[-1].startswith("# ")
    assert all(line.startswith(("# ", "paths:", "  k")) for line in lines)


@pytest.mark.parametrize(
    "value", ["22.05", "yes", "null", "1-2", "a: b", "a #b", "'", "", "ü", "-"]
)
def test_a_value_comes_back_as_it_was(value: str) -> None:
    from jobgen.source import scan

    text = write.format_profile((), Draft((ProfileLine(("name",), value, "x"),)))
    assert scan(text, "x").data["name"] == value


def test_a_wrong_answer_about_nodes_makes_no_broken_profile() -> None:
    assert of_nodes("") is None
    assert of_nodes("NodeName=n1 CPUTot=x RealMemory=y Gres=gpu:a:b:c State= Partitions=gpu").valid


def test_a_name_that_no_profile_can_hold_is_a_comment() -> None:
    draft = of("24.11", told={"user": "ann|lab#2\n", "assoc": "testbed|lab#2||normal||\n"})
    assert gaps(draft)["defaults.slurm.account"].maybe == ("lab#2",)
    odd = "NodeName=n1 CPUTot=999999 RealMemory=9 Gres=gpu:a!b:2,gpu:l4:1 State=IDLE Partitions=gpu"
    draft = of("24.11", told={"node": f"{odd}\n{odd.replace('a!b', 'l4').replace('n1', 'n2')}\n"})
    assert {"nodes.cpus", "gpu_type"} <= set(gaps(draft))


def compared(
    text: str, release: str = "24.11", **words: Any
) -> dict[str, compare.ProfileDifference]:
    found = made(survey(answers(release)), **words)
    assert found is not None
    mine = load_cluster(text, "mine.yaml")
    theirs = load_cluster(found[1], "x").value
    result = compare.compare(mine, theirs, found[0])
    return {one.key: one for one in result.wrong}


MINE = """name: mine
scheduler: slurm
paths: {root: /x}
nodes: {count: 1, gpus_per_node: 8, gpu: A100-SXM4-80GB, cpus: 64, mem: 500GiB}
network: {fabric: infiniband}
gpu_request: gres-typed
gpu_type: a100
"""


def test_what_agrees_is_no_difference() -> None:
    assert compared(MINE + "limits: {time: 1d}\naccounting: auto\nslurm_version: '24.11'\n") == {}


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("count: 1", "count: 4", "nodes.count"),
        ("cpus: 64", "cpus: 128", "nodes.cpus"),
        ("mem: 500GiB", "mem: 1TiB", "nodes.mem"),
        ("gpu_type: a100", "gpu_type: h100", "gpu_type"),
        ("gres-typed", "gpus-per-node", "gpu_request"),
        ("network:", "limits: {time: 30d}\nnetwork:", "limits.time"),
        ("network:", "accounting: none\nnetwork:", "accounting"),
        ("network:", "slurm_version: 22.05\nnetwork:", "slurm_version"),
    ],
)
def test_each_wrong_key_is_named_with_its_line(old: str, new: str, key: str) -> None:
    text = MINE.replace(old, new)
    found = compared(text)
    assert list(found) == [key]
    line = next(
        n for n, row in enumerate(text.splitlines(), 1) if f"{key.rpartition('.')[2]}:" in row
    )
    assert found[key].place == f"mine.yaml:{line}"


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        ("=mlx5_0,mlx5_1", "mlx5_1,mlx5_0", True),
        ("mlx5", "mlx5_0,mlx5_1", True),
        ("mlx5_0:1", "mlx5_0", True),
        ("mlx5_0", "mlx5_0,mlx5_1", False),
        ("mlx5_1", "mlx5_10", False),
    ],
)
def test_cards_are_compared_as_sets(ours: str, theirs: str, same: bool) -> None:
    rule = compare._RULES["network", "ib_hca"]
    assert rule(ours, theirs) is same


def test_a_tool_that_fails_says_why() -> None:
    broken = Probe("n1", {"gpu": Result(9, b"NVIDIA-SMI has failed\n")}, {}, {})
    assert (
        broken.explain_failure("gpu", "nvidia-smi")
        == "nvidia-smi on n1 ended with 9: NVIDIA-SMI has failed"
    )
