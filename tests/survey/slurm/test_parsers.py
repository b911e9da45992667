"""Real answers of three releases of Slurm, read exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.shell import Result
from jobgen.survey.slurm_site import (
    Gres,
    Partition,
    SlurmNode,
    format_limit,
    list_commands,
    parse_limit,
    read_site,
)
from jobgen.survey.slurm_site.accounts import (
    Association,
    Qos,
    parse_associations,
    parse_default_account,
    parse_qos,
)
from jobgen.survey.slurm_site.nodes import parse_nodes
from jobgen.survey.slurm_site.partitions import parse_partitions
from jobgen.survey.slurm_site.scontrol_fields import (
    parse_gres,
    parse_records,
    parse_settings,
    parse_tres,
)
from jobgen.survey.slurm_site.sinfo import NodeGroup, parse_groups

BETWEEN = "\v\f\x1c\x85\u2028"
"""What ends no line of Slurm's, but one of ``str.splitlines``."""
SITES = Path(__file__).parents[2] / "facts" / "sites"
RELEASES = ("22.05", "24.11", "26.05")


def fact(release: str, name: str) -> str:
    return (SITES / release / f"{name}.txt").read_text()


def node(name: str, **more: object) -> SlurmNode:
    usual = {"state": ("IDLE",), "cpus": 64, "memory": 512000}
    return SlurmNode(name=name, **{**usual, **more})  # type: ignore[arg-type]


A100, H100 = (Gres("gpu", "a100", 8),), (Gres("gpu", "h100", 4),)
DRAINED = {
    "22.05": "bad disk | State=IDLE Gres=gpu:h100:8 (ann) [root@2026-11-21T23:26:19]",
    "24.11": "bad disk | State=IDLE Gres=gpu:h100:8 (ann) [root@2026-11-21T23:09:23]",
    "26.05": "bad disk | State=IDLE Gres=gpu:h100:8 (ann) [root@2026-11-21T23:13:27]",
}


def expected(release: str) -> tuple[SlurmNode, ...]:
    """The three nodes as they were configured."""
    out = {"state": ("IDLE", "DRAIN"), "reason": DRAINED[release]}
    if release == "22.05":
        return (
            node(
                "n1",
                gres=A100,
                partitions=("gpu", "debug", "short", "lab"),
            ),
            node(
                "n2",
                gres=H100,
                partitions=("gpu", "short", "lab"),
            ),
            node(
                "n3",
                partitions=("gpu", "short", "cpu"),
                **out,
            ),
        )
    shard = Gres("shard", "h100", 16)
    return (
        node(
            "n1",
            gres=A100,
            partitions=("gpu", "lab"),
        ),
        node(
            "n2",
            gres=(*H100, shard),
            partitions=("gpu", "lab"),
            memory=1031000,
        ),
        node("n3", partitions=("cpu", "lab"), cpus=48, memory=192000, **out),
    )


@pytest.mark.parametrize("form", ["node", "node-blocks"])
@pytest.mark.parametrize("release", RELEASES)
def test_nodes_are_read_exactly(release: str, form: str) -> None:
    assert parse_nodes(fact(release, form)) == expected(release)


def test_nodes_of_a_cloud_that_are_off_or_starting_can_be_used() -> None:
    off, starting = parse_nodes(fact("published", "node-cyclecloud"))
    assert (off.state, off.usable) == (("IDLE", "DYNAMIC_NORM", "POWERED_DOWN"), True)
    assert (off.cpus, off.memory, off.partitions) == (2, 3072, ("dynamic",))
    assert starting.state[-2:] == ("NOT_RESPONDING", "POWERING_UP")
    assert starting.usable
    assert (starting.memory, starting.cpus) == (0, 1)


def test_the_qos_of_an_association_are_names() -> None:
    (found,) = parse_associations("c|lab||+normal,-short,long|normal|\n")
    assert found.qos == ("normal", "long")
    assert found.concerns("gpu")
    assert parse_default_account("Ann|lab42\n", "ann") == "lab42"


def test_what_a_node_keeps_for_the_system_is_not_for_jobs() -> None:
    text = "NodeName=n1 CPUEfctv=124 CPUTot=128 CoreSpecCount=2 RealMemory=9000 MemSpecLimit=1000\n"
    (found,) = parse_nodes(text)
    assert (found.cpus, found.memory, found.kept) == (124, 8000, True)
    (found,) = parse_nodes("NodeName=n1 CPUTot=128 RealMemory=9000 MemSpecLimit=x\n")
    assert (found.cpus, found.memory, found.kept) == (128, 9000, False)


def test_a_blank_line_does_not_end_a_node() -> None:
    (found,) = parse_nodes(fact("published", "node-3090"))
    assert found.reason == (
        "gres/gpu count reported lower than configured (0 < 1) [slurm@2024-12-19T11:03:34]"
    )
    assert (found.gres, found.memory) == ((Gres("gpu", "nvidia-rtx-3090", 1),), 0)
    assert not found.usable


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        ("DOWN*+CLOUD", False),
        ("DOWN*+RESERVED", False),
        ("DOWN#+CLOUD+POWERING_UP", False),
        ("DOWN+CLOUD+POWERED_DOWN", False),
        ("IDLE*+DRAIN", False),
        ("MIXED+PLANNED", True),
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("MIXED$+MAINTENANCE+RESERVED", True),
    ],
)
def test_a_mark_behind_any_word_of_a_state_is_no_part_of_it(state: str, usable: bool) -> None:
    (found,) = parse_nodes(f"NodeName=n1 State={state} Partitions=gpu\n")
    assert found.usable is usable
    assert all(word.replace("_", "").isalpha() for word in found.state)


@pytest.mark.parametrize("form", ["partition", "partition-blocks"])
@pytest.mark.parametrize("release", RELEASES)
def test_partitions_are_read_exactly(release: str, form: str) -> None:
    found = parse_partitions(fact(release, form))
    week = "7-00:00:00"
    if release == "22.05":
        usual = Partition(
            "gpu", default=True, state="UP", nodes="n[1-3]", total_nodes=3, max_time=week, gpus=12
        )
        assert found == (
            usual,
            Partition(
                "debug",
                default=False,
                state="UP",
                nodes="n1",
                total_nodes=1,
                max_time="00:30:00",
                gpus=8,
            ),
            Partition(
                "short",
                default=False,
                state="UP",
                nodes="n[1-3]",
                total_nodes=3,
                max_time="00:02:00",
                gpus=12,
            ),
            Partition("cpu", default=False, state="UP", nodes="n3", total_nodes=1),
            Partition(
                "lab",
                default=False,
                state="UP",
                nodes="n[1-2]",
                total_nodes=2,
                max_time="10:00:00",
                max_nodes=1,
                accounts=("lab42",),
                gpus=12,
            ),
        )
        return
    gpus = 12 if release == "24.11" else None
    qos = ("normal", "long") if release == "24.11" else ()
    lab = Partition(
        "lab",
        default=False,
        state="UP",
        nodes="n[1-3]",
        total_nodes=3,
        max_time="00:30:00",
        gpus=gpus,
        qos=qos,
    )
    assert found == (
        Partition(
            "gpu",
            default=True,
            state="UP",
            nodes="n[1-2]",
            total_nodes=2,
            max_time=week,
            max_nodes=2,
            gpus=gpus,
        ),
        Partition("cpu", default=False, state="UP", nodes="n3", total_nodes=1),
        lab._replace(accounts=("lab42", "vision")),
    )


@pytest.mark.parametrize(
    ("release", "key", "value"),
    [
        ("22.05", "SLURM_VERSION", "22.05.8"),
        ("24.11", "SLURM_VERSION", "24.11.5"),
        ("26.05", "SLURM_VERSION", "26.05.5"),
        ("22.05", "SelectType", "select/cons_tres"),
        ("24.11", "SelectType", "select/cons_tres"),
        ("26.05", "SelectType", "select/cons_tres"),
        ("22.05", "AccountingStorageType", "accounting_storage/slurmdbd"),
        ("24.11", "AccountingStorageType", "accounting_storage/slurmdbd"),
        ("26.05", "AccountingStorageType", ""),
        ("22.05", "ClusterName", "testbed"),
        ("26.05", "ClusterName", "testbed"),
    ],
)
def test_the_configuration_is_read(release: str, key: str, value: str) -> None:
    assert parse_settings(fact(release, "config"))[key] == value


def group(name: str, *rest: Any) -> NodeGroup:
    return NodeGroup(name.rstrip("*"), name.endswith("*"), *rest)


def test_sinfo_is_read_exactly() -> None:
    found = parse_groups(fact("26.05", "sinfo"))
    both = (*H100, Gres("shard", "h100", 16))
    week = "7-00:00:00"
    assert found == (
        group("gpu*", week, 1, "idle", 64, 512000, A100, "n1"),
        group("gpu*", week, 1, "idle", 64, 1031000, both, "n2"),
        group("cpu", "", 1, "drained", 48, 192000, (), "n3"),
        group("lab", "30:00", 1, "drained", 48, 192000, (), "n3"),
        group("lab", "30:00", 1, "idle", 64, 512000, A100, "n1"),
        group("lab", "30:00", 1, "idle", 64, 1031000, both, "n2"),
    )


def test_accounts_are_read_exactly() -> None:
    assert parse_associations(fact("24.11", "assoc")) == (
        Association("testbed", "lab42", "", ("long", "normal"), "normal", "3-00:00:00"),
        Association("testbed", "vision", "", ("normal",)),
    )
    assert parse_default_account(fact("24.11", "user"), "ann") == "lab42"
    assert parse_default_account(fact("24.11", "user"), "bob") == ""
    assert parse_qos(fact("24.11", "qos")) == (
        Qos("normal"),
        Qos("long", "2-00:00:00"),
        Qos("urgent", "04:00:00", ("DenyOnLimit",)),
    )
    assert parse_associations(fact("22.05", "assoc")) == (
        Association("testbed", "vision", "", ("normal",)),
        Association("testbed", "lab42", "", ("normal",)),
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gpu:8", [("gpu", "", 8)]),
        ("gpu", [("gpu", "", 1)]),
        ("gpu:a100", [("gpu", "a100", 1)]),
        ("gpu:a100:8(S:0-1)", [("gpu", "a100", 8)]),
        (
            "gpu:a100:4(S:0,2),gpu:v100:2,shard:a100:32",
            [("gpu", "a100", 4), ("gpu", "v100", 2), ("shard", "a100", 32)],
        ),
        ("gpu:nvidia_a100-sxm4-80gb:8", [("gpu", "nvidia_a100-sxm4-80gb", 8)]),
        ("gpu:a100_1g.5gb:7", [("gpu", "a100_1g.5gb", 7)]),
        ("tmpdisk:2K", [("tmpdisk", "", 2048)]),
        ("(null)", []),
        ("", []),
        ("gpu:a:b:c", []),
        ("gpu:a100:no_consume:2", [("gpu", "a100", 2)]),
        # hpc-community.unige.ch/t/3994, and the example of man slurm.conf
        (
            "gpu:nvidia_rtx_5000_ada_generation:4(S:0),VramPerGpu:no_consume:32G",
            [("gpu", "nvidia_rtx_5000_ada_generation", 4), ("VramPerGpu", "", 32 << 30)],
        ),
        ("bandwidth:lustre:no_consume:4G", [("bandwidth", "lustre", 4 << 30)]),
    ],
)
def test_gres_is_read(text: str, found: list[tuple[str, str, int]]) -> None:
    assert [tuple(one) for one in parse_gres(text)] == found


def test_tres_is_read() -> None:
    assert parse_tres("cpu=64,mem=500G,gres/gpu=8") == {"cpu": "64", "mem": "500G", "gres/gpu": "8"}


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("7-00:00:00", 604_800),
        ("04:00:00", 14_400),
        ("30:00", 1800),
        ("2-12", 216_000),
        ("UNLIMITED", None),
        ("infinite", None),
        ("", None),
    ],
)
def test_limits_are_read(text: str, limit: int | None) -> None:
    assert parse_limit(text) == limit


@given(st.integers(0, 10**8))
def test_a_limit_comes_back_as_it_was(limit: int) -> None:
    assert parse_limit(format_limit(limit)) == limit


def test_free_text_cannot_pass_for_a_field() -> None:
    drained = parse_nodes(fact("24.11", "node"))[2]
    assert drained.gpus == ()
    assert not drained.usable


def test_a_banner_is_passed_over() -> None:
    text = "Welcome!\nState=IDLE\n" + fact("24.11", "node") + "goodbye NodeName=x\n"
    assert parse_nodes(text) == expected("24.11")


@given(st.text())
def test_records_are_read_of_any_text(text: str) -> None:
    assert all("NodeName" in record for record in parse_records(text, "NodeName"))


@pytest.mark.parametrize("release", RELEASES)
def test_a_site_is_all_answers_together(release: str) -> None:
    folder = SITES / release
    absent = Result(1, b"", b"You are not running a supported accounting_storage plugin\n")
    off = Result(1, b"", b"Slurm accounting storage is disabled\n")
    answers = {
        name: Result(0, path.read_bytes()) if (path := folder / f"{name}.txt").exists() else absent
        for name in list_commands("ann")
    }
    if release == "26.05":
        answers["sacct"] = off
    found = read_site(answers, "ann" if release != "22.05" else "tester")
    assert found.version.startswith(release)
    assert found.nodes == expected(release)
    assert found.sacct is (release != "26.05")
    assert found.default_account == ("" if release == "26.05" else "lab42")
    assert len(found.silent) == (4 if release == "26.05" else 0)


def test_what_was_not_answered_says_why() -> None:
    answers = {"config": Result(124), "node": Result(127), "sinfo": Result(1, b"", b"x\ndown\n")}
    silent = read_site(answers, "ann").silent
    assert silent["scontrol show config"] == "did not answer in 15 s"
    assert silent["scontrol --oneliner --all show node"] == "is not there"
    assert next(why for command, why in silent.items() if "--format=%P" in command) == "down"


@pytest.mark.parametrize("between", BETWEEN)
def test_a_comment_cannot_pass_for_another_record(between: str) -> None:
    line = f"NodeName=n1 State=IDLE Comment=ask ann{between}NodeName=n2 State=DOWN\r\n"
    (record,) = parse_records(line, "NodeName")
    assert (record["NodeName"], record["State"]) == ("n1", "IDLE")
