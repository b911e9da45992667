"""What CONTRIBUTING shows works as it is shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobgen.fabric import network_settings
from jobgen.launch import LaunchRequest
from jobgen.load import load_cluster
from jobgen.model.cluster import ClusterProfile
from jobgen.model.plan import Part, Setting, Shape
from jobgen.model.settings import Launcher
from tests.waiting import HANG

ROOT = Path(__file__).resolve().parents[2]


def shown(name: str) -> str:
    """The block that CONTRIBUTING shows for this."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.search(rf"<!-- test: {name} -->\n```\w+\n(.*?)```\n", page, re.DOTALL)
    assert found, name
    return found[1]


def run(name: str, known: dict[str, Any]) -> dict[str, Any]:
    code = compile(shown(name), "CONTRIBUTING.md", "exec")
    exec(code, known)  # noqa: S102 - our own page
    return known


@pytest.fixture(scope="module")
def with_composer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of jobgen to which the launcher was added as CONTRIBUTING shows: a module, a row."""
    copy = tmp_path_factory.mktemp("composer")
    for name in ("jobgen", "templates", "clusters"):
        shutil.copytree(ROOT / name, copy / name)
    (copy / "jobgen/launch/composer.py").write_text(shown("launcher"))
    table = copy / "jobgen/model/launchers.py"
    before, first, after = table.read_text().partition('    "torchrun": LauncherFacts(')
    table.write_text(f"{before}{shown('launcher row')}{first}{after}")
    (copy / "train.py").touch()
    return copy


def jobgen(copy: Path, job: str, *words: str) -> subprocess.CompletedProcess[str]:
    """One command on this job, of that copy of jobgen."""
    (copy / "job.yaml").write_text(job)
    return subprocess.run(
        [sys.executable, "-m", "jobgen", words[0], "job.yaml", *words[1:]],
        cwd=copy,
        env={"PATH": os.environ["PATH"], "HOME": str(copy), "PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        timeout=HANG,
    )


def test_a_launcher_is_a_module_and_a_row(with_composer: Path) -> None:
    done = jobgen(with_composer, shown("launcher job"), "render", "-o", "out")
    assert done.returncode == 0, done.stderr
    node = (with_composer / "out/node.sh").read_text()
    assert "exec composer --nproc=8 --world_size=16" in node
    assert "'--stdout=rank{rank}.txt'" in node
    scripts = [p for p in (with_composer / "out").iterdir() if p.suffix in {".sh", ".sbatch"}]
    assert len(scripts) >= 4
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "args:",
            "max_restarts: 3, args:",
            "max_restarts is a setting of torchrun, not of composer",
        ),
        ("nodes: 2", "nodes: 1:2", "[J138]: nodes: MIN:MAX needs torchrun"),
        ("type: composer", "type: compose", "did you mean 'composer'?"),
        ("run: train.py", "run: composer train.py", "write 'train.py': composer starts its ranks"),
    ],
)
def test_the_checks_of_a_job_follow_from_the_row(
    with_composer: Path, before: str, after: str, message: str
) -> None:
    done = jobgen(with_composer, shown("launcher job").replace(before, after), "lint")
    assert done.returncode == 3
    assert message in done.stdout + done.stderr


def test_the_launcher_starts_every_rank_through_rank_sh() -> None:
    shape = Shape(2, 8, 8, 96, 1, 3600)
    made = run("launcher", {})["launch"](LaunchRequest(Launcher(), shape, '"$SLURMD_NODENAME"'))
    assert made.node.scope == "node"
    assert "--world_size=16" in made.node.text
    assert made.node.text.endswith(
        'bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"'
    )


def test_the_profile_is_valid() -> None:
    profile = load_cluster(shown("cluster"), "lumen.yaml").value
    assert (profile.nodes.count, profile.network.fabric) == (16, "infiniband")


def test_the_network_says_why() -> None:
    keys: dict[str, Any] = {"name": "c", "scheduler": "slurm", "paths": {"root": "/r"}}
    keys |= {"nodes": {"count": 2}, "network": {"fabric": "none", "socket_ifname": "hsn0"}}
    cluster = ClusterProfile.read(keys)
    here = network_settings.NetworkSite(
        cluster.network, cluster.nodes, cluster.versions, lambda *path: "here"
    )
    known = {
        "Site": network_settings.NetworkSite,
        "sockets": network_settings.sockets,
        "Part": Part,
        "Setting": Setting,
    }
    made = run("network", known)["weave"](here).env
    assert set(made) == {"NCCL_NET", "NCCL_SOCKET_IFNAME"}
    assert all(setting.why and setting.place for setting in made.values())
