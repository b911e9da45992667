"""A real controller accepts every rendered script: ``sbatch --test-only`` on made-up sites.

The controller is given the partitions, features, GPU types, licences and reservations that the
scripts name, on large nodes that are switched off: to judge a script it needs no slurmd there.
Options of plug-ins that Debian does not have are stripped; pytest's last lines list them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.cluster import Cluster, Options
from tests.cluster.layout import REPOSITORY

pytestmark = pytest.mark.cluster

GOLDEN = {
    str(path.parent.relative_to(REPOSITORY / "tests")): path
    for path in sorted((REPOSITORY / "tests").rglob("job.sbatch"))
}
PLUGIN = re.compile(r"--(container-|no-container-)\S+")
"""Options that pyxis brings."""
POWER = (
    "SuspendProgram=/bin/true",
    "ResumeProgram=/bin/true",
    "SuspendTime=1000000",
)
Directives = Mapping[str, str]


def directives(script: str) -> list[dict[str, str]]:
    """The options of each component, as sbatch reads them: long name → value."""
    found: list[dict[str, str]] = []
    for part in script.split("#SBATCH hetjob\n"):
        found.append({})
        for line in part.splitlines():
            if line.startswith("#SBATCH"):
                for word in shlex.split(line.removeprefix("#SBATCH"), comments=True):
                    name, _, value = word.removeprefix("--").partition("=")
                    found[-1][name] = value
    return found


def stripped(script: str) -> tuple[str, list[str]]:
    """The script without the options of plug-ins, and those options."""
    lines = script.splitlines(keepends=True)
    gone = [line for line in lines if line.startswith("#SBATCH") and PLUGIN.search(line)]
    return "".join(line for line in lines if line not in gone), gone


def every(scripts: Mapping[str, str], option: str, pattern: str) -> list[str]:
    """All names that the scripts use in an option, once each."""
    parts = (part for text in scripts.values() for part in directives(text))
    values = (part.get(option, "") for part in parts)
    return sorted({name for value in values for name in re.findall(pattern, value)})


def site(scripts: Mapping[str, str]) -> tuple[str, ...]:
    """Lines of slurm.conf for a site on which each of these scripts could run."""
    types = every(scripts, "gpus-per-node", r"([a-z][\w.-]*):\d")
    types += every(scripts, "gres", r"gpu:([a-z][\w.-]*):\d")
    features = ["any", *every(scripts, "constraint", r"[A-Za-z_][\w.-]*")]
    nodes, names = [], []
    for number, gpu in enumerate(sorted({*types, "generic"})):
        # the fewer nodes there are, the faster the controller judges a script
        asking = [name for name, text in scripts.items() if gpu == "generic" or f"{gpu}:" in text]
        sizes = every({name: scripts[name] for name in asking}, "nodes", r"\d+")
        names.append(f"g{number}x[1-{max([2, *map(int, sizes)])}]")
        what = f"CPUs=512 RealMemory=4000000 Gres=gpu:{gpu}:16 Feature={','.join(features)}"
        nodes.append(f"NodeName={names[-1]} {what} State=CLOUD")
    partitions = every(scripts, "partition", r"[^,]+")
    licences = [f"{name}:1000" for name in every(scripts, "licenses", r"([A-Za-z_][\w.-]*)")]
    return (
        *POWER,
        *nodes,
        *(f"PartitionName={p} Nodes={','.join(names)} State=UP" for p in partitions),
        f"PartitionName=made_up Nodes={','.join(names)} State=UP",
        *([f"Licenses={','.join(licences)}"] if licences else []),
    )


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    return {name: path.read_text(encoding="utf-8") for name, path in GOLDEN.items()}


@pytest.fixture(scope="module")
def controller(scripts: dict[str, str]) -> Iterator[Cluster]:
    """A controller that knows every partition, feature and GPU type of the scripts."""
    plain = {name: stripped(text)[0] for name, text in scripts.items()}
    with Cluster.up(Options(nodes=1, conf=site(plain))) as cluster:
        for name in every(plain, "reservation", r"[^,]+"):
            # over all nodes, so that it fits any script; the others could start ten minutes later
            what = f"ReservationName={name} Users=tester StartTime=now Duration=10 Nodes=ALL"
            cluster.slurm("scontrol", "create", "reservation", *what.split(), "Flags=OVERLAP")
        yield cluster


@pytest.mark.parametrize("name", GOLDEN)
def test_slurm_accepts_the_script(
    name: str,
    scripts: dict[str, str],
    controller: Cluster,
    record_property: Callable[[str, object], None],
) -> None:
    text, gone = stripped(scripts[name])
    if gone:
        record_property("stripped", [name, *(line.strip() for line in gone)])
    here = {} if "partition" in directives(text)[0] else {"SBATCH_PARTITION": "made_up"}
    words = ["sbatch", "--test-only"]
    done = controller.run("login", words, stdin=text, check=False, env=here)
    assert done.returncode == 0, done.stderr
    assert "to start at" in done.stderr


def test_there_are_golden_scripts() -> None:
    assert GOLDEN
    assert all(Path(path).read_bytes().startswith(b"#!/bin/bash\n") for path in GOLDEN.values())
