"""What CONTRIBUTING shows works as it is shown.

Each recipe's blocks go into a copy of the project, at the places that it names, and its commands
run there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobgen.fabric.network_settings import NetworkSite, set_sockets
from jobgen.launch import LaunchRequest
from jobgen.model.cluster import ClusterProfile
from jobgen.model.decision import Setting
from jobgen.model.plan import Part, Shape
from jobgen.model.settings import Launcher
from tests.cluster import Cluster
from tests.e2e.runs import submit, write
from tests.waiting import HANG, until

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COPIED = ("jobgen", "templates", "clusters")
TESTED = ("tests", "scripts", "docs")


def block(name: str) -> str:
    """The block that CONTRIBUTING has under this name."""
    match = re.search(rf"<!-- test: {name} -->\n```\w+\n(.*?)```\n", PAGE, re.DOTALL)
    assert match, name
    return match[1]


def define(name: str, names: dict[str, Any]) -> dict[str, Any]:
    """What a block of Python defines, where these names are known."""
    code = compile(block(name), "CONTRIBUTING.md", "exec")
    exec(code, names)  # noqa: S102 - our own page
    return names


class Copy:
    """A copy of the project to which a recipe is applied; its golden files are linked."""

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        self.root = root
        golden = shutil.ignore_patterns("golden")
        for name in folders:
            shutil.copytree(ROOT / name, root / name, ignore=golden, symlinks=True)
        if "tests" in folders:
            self.link_golden_files()
        shutil.copy(ROOT / "pyproject.toml", root)

    def link_golden_files(self) -> None:
        """The folders of ``tests/golden``, to which new ones can be added."""
        (self.root / "tests/golden").mkdir()
        for path in (ROOT / "tests/golden").iterdir():
            if path.is_dir():
                (self.root / "tests/golden" / path.name).symlink_to(path)
            else:
                shutil.copy(path, self.root / "tests/golden")

    def put(self, path: str, name: str) -> None:
        """Make a file of a block."""
        (self.root / path).parent.mkdir(exist_ok=True)
        (self.root / path).write_text(block(name))

    def insert(self, path: str, name: str, above: str) -> None:
        """Put a block above the one place in a file that begins like this."""
        before, line, after = (self.root / path).read_text().partition(above)
        assert line, f"{path} has no {above!r}"
        (self.root / path).write_text(before + block(name) + line + after)

    def run(self, *words: str, limit: str = "1024") -> subprocess.CompletedProcess[str]:
        """Python in the copy, with so many open files."""
        return subprocess.run(
            ["bash", "-c", f'ulimit -Sn {limit}; exec "$@"', "-", sys.executable, *words],
            cwd=self.root,
            env={"PATH": os.environ["PATH"], "HOME": str(self.root), "PYTHONPATH": str(self.root)},
            capture_output=True,
            text=True,
            timeout=HANG,
        )

    def jobgen(self, job: str, *words: str) -> subprocess.CompletedProcess[str]:
        """One command on this job."""
        (self.root / "job.yaml").write_text(job)
        return self.run("-m", "jobgen", words[0], "job.yaml", *words[1:])

    def pytest(self, *words: str) -> str:
        """The last lines of a run of tests, which may fail."""
        done = self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short", *words)
        return done.stdout[-3000:] + done.stderr[-1000:]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    """With what the tests in it need."""
    return Copy(tmp_path, COPIED + TESTED)


# A launcher


@pytest.fixture(scope="module")
def with_launcher(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    copy = Copy(tmp_path_factory.mktemp("launcher"), COPIED)
    copy.put("jobgen/launch/ft_launcher.py", "launcher")
    copy.insert("jobgen/model/launchers.py", "launcher row", above='    "torchrun": LauncherFacts(')
    (copy.root / "train.py").touch()
    return copy


def test_a_launcher_is_a_module_and_a_row(with_launcher: Copy) -> None:
    done = with_launcher.jobgen(block("launcher job"), "render", "-o", "out")
    assert done.returncode == 0, done.stderr
    out = with_launcher.root / "out"
    node = (out / "node.sh").read_text()
    assert "exec ft_launcher --nnodes=2" in node
    assert '"--log-dir=${SCRATCH}/agent logs"' in node
    scripts = [p for p in out.iterdir() if p.suffix in {".sh", ".sbatch"}]
    assert len(scripts) >= 4
    for script in scripts:
        subprocess.run(["bash", "-n", str(script)], check=True)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "args:",
            "max_restarts: 3, args:",
            "launcher.max_restarts has no effect with ft_launcher",
        ),
        ("nodes: 2", "nodes: 1:2", "[J138]: nodes: MIN:MAX needs torchrun"),
        ("type: ft_launcher", "type: ft_launch", "did you mean 'ft_launcher'?"),
        (
            "run: train.py",
            "run: fabric run train.py",
            "write 'train.py'; ft_launcher starts its ranks",
        ),
    ],
)
def test_the_checks_of_a_job_follow_from_the_row(
    with_launcher: Copy, before: str, after: str, message: str
) -> None:
    done = with_launcher.jobgen(block("launcher job").replace(before, after), "lint")
    assert done.returncode == 3
    assert message in done.stdout + done.stderr


def test_the_launcher_starts_every_rank_through_rank_sh() -> None:
    shape = Shape(2, 8, 8, 96, 1, 3600)
    launch = define("launcher", {})["launch"]
    step = launch(LaunchRequest(Launcher(), shape, '"$SLURMD_NODENAME"')).node
    assert step.scope == "node"
    assert "--nproc-per-node=8" in step.text
    assert step.text.endswith(
        'bash "$JOBGEN_BUNDLE_DIR/rank.sh" bash "$JOBGEN_BUNDLE_DIR/program.sh"'
    )


# A cluster, a network


def test_a_cluster_is_a_profile_and_a_golden_folder(copy: Copy) -> None:
    copy.put("clusters/lumen.yaml", "cluster")
    linted = copy.run("-m", "jobgen", "lint", "clusters/lumen.yaml")
    assert linted.returncode == 0, linted.stdout + linted.stderr
    tests = ("tests/golden/test_golden.py", "tests/docs/test_networks.py", "-k")
    forgotten = copy.pytest(*tests, "shipped or table_of")
    assert "2 failed" in forgotten, forgotten
    copy.put("tests/golden/lumen-2n/job.yaml", "cluster job")
    updated = copy.pytest(*tests, "shipped or table_of or lumen and renders_to", "--golden-update")
    assert "3 passed" in updated, updated
    script = (copy.root / "tests/golden/lumen-2n/bundle/job.sbatch").read_text()
    assert "mlx5_0,mlx5_1,mlx5_2,mlx5_3" in script


def test_the_network_says_why() -> None:
    keys: dict[str, Any] = {"name": "c", "scheduler": "slurm", "paths": {"root": "/r"}}
    keys |= {"nodes": {"count": 2}, "network": {"fabric": "none", "socket_ifname": "hsn0"}}
    cluster = ClusterProfile.read(keys)
    site = NetworkSite(cluster.network, cluster.nodes, cluster.versions, lambda *path: "here")
    parts = {"NetworkSite": NetworkSite, "set_sockets": set_sockets}
    env = define("network", {**parts, "Part": Part, "Setting": Setting})["weave"](site).env
    assert set(env) == {"NCCL_NET", "NCCL_SOCKET_IFNAME"}
    assert all(setting.why and setting.place for setting in env.values())


# A key


def test_a_key_is_an_entry_and_a_decision(copy: Copy) -> None:
    (copy.root / "train.py").touch()
    job = "name: j\ncluster: a100x16\nnodes: 2\ntime: 1h\nrun: train.py\n"
    copy.insert("jobgen/model/job.py", "key", above="    bind: Literal[")
    forgotten = copy.pytest("tests/load/test_schema.py", "-k", "every_key_of_a_job")
    assert "'threads'" in forgotten, forgotten
    decided = "jobgen/resolve/rank_environment.py"
    copy.insert(decided, "key decision", above='    return Part("jobgen", env=env')
    assert " passed" in copy.pytest("tests/load/test_schema.py", "-k", "every_key")
    done = copy.jobgen(job + "threads: 7\n", "render", "-o", "out")
    assert done.returncode == 0, done.stderr
    script = (copy.root / "out/job.sbatch").read_text()
    assert "export OMP_NUM_THREADS=7 # " in script
    wrong = copy.jobgen(job + "thread: 7\n", "lint")
    assert "did you mean 'threads'" in wrong.stdout + wrong.stderr
    assert copy.run("scripts/reference", "--check").returncode == 1
    copy.run("scripts/reference")
    assert "| `threads` |" in (copy.root / "docs/reference/job.md").read_text()


# A check of doctor


def test_a_check_is_a_function_and_a_row(copy: Copy) -> None:
    shell = copy.root / "jobgen/payload/doctor_shell.sh"
    shell.write_text(shell.read_text() + block("check answer"))
    tables = "jobgen/survey/health/host.py"
    copy.insert(tables, "check", above="ROWS: tuple")
    copy.insert(tables, "check row", above='    CheckRow("slurm.commands"')
    forgotten = copy.pytest("tests/survey/health/test_judging.py", "-k", "every_check_has_a_fault")
    assert "host.files" in forgotten, forgotten
    questions = copy.root / "jobgen/survey/health/questions.py"
    text = questions.read_text()
    assert 'Question("shell", "shell", 10,' in text
    # how fast this machine answers is not what is tested
    questions.write_text(text.replace('"shell", 10,', f'"shell", {HANG:.0f},'))
    for limit, status in (("1024", "ok"), ("256", "warning")):
        done = copy.run("-m", "jobgen", "doctor", "-c", "local", "--json", limit=limit)
        checks = {check["id"]: check for check in json.loads(done.stdout)["data"]["checks"]}
        assert checks["host.files"]["status"] == status, checks["host.files"]


# A parser


def test_a_parser_is_a_module_a_fact_and_a_row(copy: Copy) -> None:
    copy.put("jobgen/survey/slurm_site/reservations.py", "parser")
    facts = "tests/facts/sites/22.05/reservation"
    tests = ("tests/survey/hardware/test_facts.py", "-k", "reservation or every_module")
    forgotten = copy.pytest(*tests)
    assert "reservations" in forgotten, forgotten
    copy.put(f"{facts}.txt", "parser fact")
    copy.put(f"{facts}.json", "parser value")
    copy.insert("tests/survey/facts.py", "parser row", above='}\n"""Name → parser')
    table = copy.root / "tests/survey/facts.py"
    imported = "from jobgen.survey.slurm_site import reservations\n"
    table.write_text(table.read_text().replace("\nFACTS =", f"{imported}\nFACTS =", 1))
    assert "2 passed" in copy.pytest(*tests)
    fast = "reservation and not megabytes"
    mutated = copy.pytest("tests/survey/test_mutations.py", "-k", fast)
    assert "9 passed" in mutated, mutated


# A failure


@pytest.mark.cluster
def test_the_failure_is_real(cluster: Cluster, tmp_path: Path) -> None:
    names = {"Cluster": Cluster, "Path": Path, "signal": signal, "submit": submit, "until": until}
    define("failure", names | {"write": write})["test_a_killed_program_fails_the_job"](
        cluster, tmp_path
    )


# The map of the code


def test_every_row_of_the_map_leads_to_what_it_names() -> None:
    """The first name of a row is a file, and those behind it are defined there."""
    section = PAGE.partition("## Map of the code\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| .+ \| (`.*`) \|$", section, re.MULTILINE)
    assert len(rows) >= 20
    for row in rows:
        path, *names = re.findall(r"`([^`]+)`", row)
        text = (ROOT / path).read_text(encoding="utf-8")
        for name in names:
            defined = rf"^(?:def |class )?{re.escape(name)}(?:\(|:| =)"
            assert re.search(defined, text, re.MULTILINE), f"{path}: {name}"
