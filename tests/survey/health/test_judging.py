"""Answers in, verdicts out: real answers are well, each fault is named, and no text is a bug."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.survey.health import Answer, disk, host, slurm_checks, write_size
from jobgen.survey.health.host import Clock, parse_time
from tests.survey.health.cases import ANSWERS, findings, partition, with_answers


def test_real_answers_are_well() -> None:
    found = findings(ANSWERS, Clock(100.5, 100.0, 101.0))
    assert {f.verdict.status for f in found} == {"ok"}
    said = {f.id: f.verdict.found for f in found}
    assert said["slurm.partition"] == "gpu (default)"
    assert said["slurm.sizes"] == "4 nodes, jobs up to 7d"
    assert said["slurm.limits"] == "at most 100 submitted; yours in the queue: 2"
    assert said["disk.free"] == "71.2 GiB free of 252 GiB"
    assert said["disk.quota"] == "5.81 GiB used of 20.5 GiB"
    assert said["disk.runs"] == "2 run directories, 2 GiB"


LATE = Answer(124)
SHELL = ANSWERS["shell"].out
DISK = ANSWERS["disk"].out
QUOTA = "/scratch  {}  {}  {} {}  12  {}  {} -\n"


def slurm(**options: str) -> dict[str, str]:
    inside = ", ".join(f"{key}: {value}" for key, value in options.items())
    return {"defaults": f"{{slurm: {{{inside}}}}}"}


@pytest.mark.parametrize(
    ("changes", "keys", "check", "status", "words"),
    [
        ({"shell": SHELL + "\nmissing tar"}, {}, "host.programs", "failed", "tar"),
        ({"shell": SHELL.replace("5.2.15", "3.2.57")}, {}, "host.bash", "failed", "3.2.57"),
        ({"shell": SHELL + "\nnolocale locale: Cannot"}, {}, "host.locale", "warning", "LC_ALL"),
        ({"shell": SHELL.replace("0022", "0000")}, {}, "host.umask", "warning", "every user"),
        ({"shell": SHELL + "\nstray SBATCH_X"}, {}, "host.variables", "warning", "SBATCH_X"),
        ({"shell": SHELL + "\nmissing sbatch"}, {}, "slurm.commands", "failed", "sbatch"),
        ({"shell": LATE}, {}, "host.account", "failed", "in time"),
        ({"ping": LATE}, {}, "slurm.controller", "failed", "not answer in time"),
        ({"ping": Answer(1, "Slurmctld is DOWN")}, {}, "slurm.controller", "failed", "is down"),
        ({"queue": LATE}, {}, "slurm.controller", "failed", "no queries"),
        ({"queue": Answer(0, "", "", 4.2)}, {}, "slurm.controller", "warning", "4.2 s"),
        ({"config": ""}, {}, "slurm.version", "ok", "22.05.8"),
        ({}, {"slurm_version": "'24.05'"}, "slurm.version", "failed", "hpc.yaml:7"),
        ({}, {"slurm_version": "'20.11'"}, "slurm.version", "warning", "newer"),
        ({"past": Answer(1, "", "refused")}, {}, "slurm.accounting", "warning", "refused"),
        ({"past": LATE}, {"accounting": "sacct"}, "slurm.accounting", "failed", "slurmdbd"),
        ({}, slurm(partition="gqu"), "slurm.partition", "failed", "did you mean 'gpu'"),
        ({}, slurm(partition="'gpu,debug'"), "slurm.partition", "ok", "gpu, debug"),
        (
            {"partitions": partition("gpu")},
            {},
            "slurm.partition",
            "failed",
            "no default partition",
        ),
        (
            {"partitions": partition("gpu", state="DRAIN", default="YES")},
            {},
            "slurm.partition",
            "failed",
            "gpu is DRAIN",
        ),
        (
            {"partitions": partition("gpu", accounts="bio,chem", default="YES")},
            slurm(account="nlp"),
            "slurm.partition",
            "failed",
            "account bio or chem only, not nlp",
        ),
        (
            {
                "partitions": partition("gpu", default="YES").replace(
                    "OverSub", "RootOnly=YES OverSub"
                )
            },
            {},
            "slurm.partition",
            "failed",
            "gpu is for root only",
        ),
        (
            {"partitions": partition("gpu", groups="staff", default="YES")},
            {},
            "slurm.partition",
            "failed",
            "group staff only",
        ),
        (
            {"partitions": partition("gpu", groups="staff,nlp", default="YES")},
            {},
            "slurm.partition",
            "ok",
            "gpu",
        ),
        ({}, {"limits": "{time: 8d}"}, "slurm.sizes", "warning", "allows 7d"),
        (
            {"partitions": ANSWERS["partitions"].out.replace("MaxNodes=UNLIMITED", "MaxNodes=2")},
            {},
            "slurm.sizes",
            "warning",
            "allows 2 correct limits.nodes",
        ),
        (
            {"partitions": ANSWERS["partitions"].out.replace("TotalNodes=4", "TotalNodes=3")},
            {},
            "slurm.sizes",
            "warning",
            "has 3 correct nodes.count (hpc.yaml:5)",
        ),
        ({}, slurm(account="NLP"), "slurm.account", "ok", "NLP"),
        ({}, slurm(account="nlq"), "slurm.account", "failed", "yours: nlp, physics"),
        ({"association": ""}, {}, "slurm.account", "failed", "ask your site"),
        ({"association": "", "config": ""}, {}, "slurm.account", "ok", "not needed"),
        ({}, slurm(account="nlp", qos="high"), "slurm.qos", "ok", "high"),
        ({}, slurm(account="physics", qos="high"), "slurm.qos", "failed", "yours: normal"),
        ({"association": "nlp||normal||0||hpc"}, {}, "slurm.limits", "failed", "cannot run jobs"),
        (
            {
                "association": "nlp||normal||0||other\nphysics||+High||||hpc",
                "config": ANSWERS["config"].out + "ClusterName = HPC\n",
            },
            slurm(account="nlp"),
            "slurm.account",
            "failed",
            "yours: physics",
        ),
        ({"association": "nlp||+High||||hpc"}, slurm(qos="high"), "slurm.qos", "ok", "high"),
        ({"test": Answer(1, "", "Invalid qos")}, {}, "slurm.request", "failed", "slurm.qos"),
        ({"test": LATE}, {}, "slurm.request", "failed", "in time"),
        ({"disk": Answer(124, "doing free")}, {}, "disk.root", "failed", "df"),
        ({"disk": "unset SCRATCH"}, {}, "disk.root", "failed", "$SCRATCH is not set"),
        ({"disk": "root x\nrelative x"}, {}, "disk.root", "failed", "not an absolute path"),
        ({"disk": "root /s/x\nat /s"}, {}, "disk.root", "ok", "can be created"),
        ({"disk": DISK + "\nnoexec"}, {}, "disk.noexec", "warning", "noexec"),
        ({"disk": DISK + "\neveryone /s"}, {}, "disk.replaceable", "failed", "no sticky bit"),
        ({"disk": DISK + "\ngroup /s"}, {}, "disk.replaceable", "warning", "the group of /s"),
        ({"disk": DISK + "\nowner /s"}, {}, "disk.replaceable", "warning", "another user"),
        ({"disk": DISK}, {}, "disk.replaceable", "ok", "no other user"),
        ({"disk": DISK.replace("lustre", "xfs")}, {}, "disk.shared", "warning", "srun ls -d"),
        ({"disk": DISK.replace("74668408", "999")}, {}, "disk.free", "failed", "999 KiB free"),
        ({"disk": DISK.replace("74668408", "99999")}, {}, "disk.free", "warning", "97.7 MiB"),
        ({"disk": DISK.replace("16235417", "9")}, {}, "disk.inodes", "failed", "9 more files"),
        ({"disk": DISK.replace("runs 2", "runs 900")}, {}, "disk.runs", "warning", "900 run"),
        ({"runs": LATE}, {}, "disk.runs", "ok", "too many files"),
        ({"quota": QUOTA.format("99*", 90, 100, "6days", 0, 0)}, {}, "disk.quota", "warning", "99"),
        (
            {"quota": QUOTA.format("100*", 90, 100, "-", 0, 0)},
            {},
            "disk.quota",
            "failed",
            "used up",
        ),
        ({"lustre": QUOTA.format(5, 0, 0, "-", 10, 12)}, {}, "disk.quota", "failed", "12 files"),
        ({"quota": QUOTA.format(5, 0, 0, "", 0, 0)}, {}, "disk.quota", "ok", "no limit"),
        ({"quota": LATE}, {}, "disk.quota", "unknown", "in time"),
    ],
)
def test_a_fault_is_named(
    changes: dict[str, Any], keys: dict[str, str], check: str, status: str, words: str
) -> None:
    found = {f.id: f.verdict for f in findings(with_answers(**changes), **keys)}
    verdict = found[check]
    assert verdict.status == status, verdict
    assert words in f"{verdict.found} {verdict.fix}"
    others = {name for name, v in found.items() if v.status == "failed" and name != check}
    assert not others, "one fault is one finding"


@pytest.mark.parametrize(
    ("there", "status"),
    [
        (100.4, "ok"),
        (104.0, "ok"),
        (96.0, "ok"),
        (107.0, "warning"),
        (90.0, "warning"),
        (500.0, "failed"),
        (None, "unknown"),
    ],
)
def test_clocks(there: float | None, status: str) -> None:
    """Only what the way there and back cannot explain counts."""
    found = {f.id: f.verdict for f in findings(ANSWERS, Clock(there, 100.0, 101.0))}
    assert found["host.clock"].status == status


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1795302930.25\n", 1795302930.25),
        ("1795302930", 1795302930.0),
        *((bad, None) for bad in ("1795302930.N", "", "٣", "9" * 40, "date: bad")),
    ],
)
def test_the_time_there(text: str, seconds: float | None) -> None:
    assert parse_time(text) == seconds


TEXTS = st.one_of(
    st.text(max_size=80),
    st.sampled_from([a.out + a.err for a in ANSWERS.values()]).flatmap(
        lambda text: st.tuples(
            st.integers(0, len(text)), st.integers(0, 30), st.text(max_size=9)
        ).map(lambda cut: text[: cut[0]] + cut[2] + text[cut[0] + cut[1] :])
    ),
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            key: st.builds(
                Answer,
                st.sampled_from([0, 1, 124, 127, -1]),
                TEXTS,
                TEXTS,
                st.sampled_from([None, 9.0]),
            )
            for key in ANSWERS
        },
    )
)
def test_no_answer_is_a_bug_and_every_fault_has_a_fix(changed: dict[str, Answer]) -> None:
    for finding in findings(with_answers(**changed), accounting="sacct", **slurm(account="nlp")):
        verdict = finding.verdict
        assert verdict.found
        assert bool(verdict.fix) == (verdict.status in ("failed", "warning"))
        assert verdict.code or verdict.status != "failed"


def test_every_check_has_a_fault() -> None:
    """Its clock is judged by ``test_clocks``."""
    (cases,) = test_a_fault_is_named.pytestmark  # type: ignore[attr-defined]
    faults = {check for _, _, check, status, _ in cases.args[1] if status != "ok"}
    tables = (host.ROWS, slurm_checks.ROWS, disk.ROWS)
    assert {row.id for rows in tables for row in rows} - faults == {"host.clock"}


def test_a_size_of_a_thousand_has_no_exponent() -> None:
    assert [write_size(n << 10) for n in (6, 1000, 1023, 1024)] == [
        "6 KiB",
        "1000 KiB",
        "1020 KiB",
        "1 MiB",
    ]
