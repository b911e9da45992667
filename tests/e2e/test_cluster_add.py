"""``cluster add`` and ``cluster check`` against a real Slurm with nodes of several kinds.

The nodes have no GPUs and no InfiniBand: scripts answer as nvidia-smi and ibstat do, with the real
answers of an H100 node.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from jobgen.load import check, load_cluster
from tests.cluster import Cluster, Options
from tests.cluster.client import JOBGEN
from tests.cluster.layout import REPOSITORY
from tests.e2e.runs import answer, submit, write
from tests.terminals import spawn_on_terminal
from tests.waiting import HANG

pytestmark = pytest.mark.cluster

FACTS = Path(__file__).parents[1] / "facts" / "hardware"
CSV = "\\n".join(["NVIDIA H100 80GB HBM3, 81559, 550.54.15"] * 8)
LEGEND = "".join(f"  NIC{n}: mlx5_{n}\\n" for n in range(10))
SMI = f"""#!/bin/sh
case "$*" in
  *--query-gpu*) printf '{CSV}\\n' ;;
  "topo -m") cat {FACTS}/topo-hgx-h100.txt; printf '{LEGEND}' ;;
  *) exit 1 ;;
esac
"""
IBSTAT = f"""#!/bin/sh
# the cards of one node, under the names that the other node's topology has
sed "s/'mlx5_4'/'mlx5_2'/; s/mlx5_bond_0/mlx5_3/" {FACTS}/ibstat-h100-ib.txt
"""


RULES = """\
    if job.partition == "debug" and job.shared == 0 then
        slurm.log_user("no --exclusive in debug")
        return slurm.ERROR
    end
    if job.partition == "short" and job.pn_min_memory == 0 then
        slurm.log_user("no --mem=0 in short")
        return slurm.ERROR
    end
"""
"""A site's plug-in, as some have it."""


@pytest.fixture(scope="module")
def site() -> Iterator[Cluster]:
    """Two nodes with different GPUs and one without, five partitions, accounts."""
    options = Options(
        accounting=True,
        nodes=3,
        gres=("gpu:a100:8", "gpu:h100:8", ""),
        job_submit=RULES,
        conf=(
            "PartitionName=cpu Nodes=n3 MaxTime=UNLIMITED",
            "AccountingStorageEnforce=associations,qos",
            "PartitionName=lab Nodes=n2 MaxTime=600 AllowAccounts=vision,lab42 AllowQos=long",
        ),
    )
    with Cluster.up(options) as running:
        for words in (
            "add account lab42",
            "add account vision",
            "add qos long MaxWall=2-00:00:00",
            "add user tester Account=lab42 DefaultAccount=lab42",
            "add user tester Account=vision",
            "modify user where name=tester account=lab42 set qos=normal,long defaultqos=normal",
        ):
            running.slurm("sacctmgr", "-i", *words.split())
        running.slurm("scontrol", "reconfigure")
        yield running


@pytest.fixture
def tools(site: Cluster) -> Iterator[Path]:
    """nvidia-smi and ibstat on the PATH that a login shell has, and so a job."""
    home = site.layout.home / "tester"
    folder = home / "bin"
    folder.mkdir()
    for name, text in (("nvidia-smi", SMI), ("ibstat", IBSTAT)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    (home / ".bashrc").write_text(f"export PATH={folder}:$PATH\n")
    yield folder
    (home / ".bashrc").unlink()
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def add(cluster: Cluster, *words: str, check: bool = True) -> dict[str, Any]:
    """What ``cluster add --json`` says, printed and not written."""
    done = cluster.client.jobgen(
        "cluster", "add", "mine", "--from", "testbed", "--output", "-", "--json", *words
    )
    return answer(done)  # type: ignore[no-any-return]


def found(data: dict[str, Any]) -> dict[str, Any]:
    return {line["key"]: line["value"] for line in data["found"]}


def jobs(cluster: Cluster) -> list[str]:
    """Every job that the accounting or the queue knows."""
    return cluster.slurm("squeue", "-h", "-t", "all", "-o", "%i %j").splitlines()


def test_without_leave_a_profile_is_made_and_no_job_submitted(site: Cluster) -> None:
    before = jobs(site)
    data = add(site)
    assert jobs(site) == before
    assert data["node"] is None
    assert found(data) == {
        "name": "mine",
        "scheduler": "slurm",
        "ssh.host": "testbed",
        "paths.root": f"{site.layout.home}/$USER/jobgen",
        "nodes.count": 1,
        "nodes.gpus_per_node": 8,
        "nodes.cpus": 64,
        "nodes.mem": "512000MiB",
        "gpu_request": "gres-typed",
        "gpu_type": "a100",
        "defaults.slurm.partition": "gpu",
        "defaults.slurm.account": "lab42",
        "limits.time": "7-00:00:00",
        "accounting": "sacct",
        "slurm_version": "22.05",
    }
    gaps = {gap["key"]: gap["maybe"] for gap in data["not_found"]}
    assert "A100-SXM4-40GB" in gaps["nodes.gpu"]
    assert "A100-SXM4-80GB" in gaps["nodes.gpu"]
    assert {"network.fabric", "network.internet"} <= set(gaps)
    assert "partition gpu (1 node of 8 a100) was taken" in data["notes"][0]
    assert "cpu (1 node of no GPU)" in data["notes"][0]
    assert "1 node of 8 h100" in data["notes"][1]
    assert all(line.count("#") for line in data["text"].splitlines() if not line.endswith(":"))
    assert check(data["text"], "x").problems == ()


def test_the_partition_decides_the_account_the_qos_and_the_limit(site: Cluster) -> None:
    data = add(site, "--partition", "lab")
    assert found(data)["defaults.slurm.qos"] == "long"
    assert found(data)["defaults.slurm.account"] == "lab42"
    assert found(data)["limits.time"] == "10:00:00"
    assert found(data)["nodes.gpus_per_node"] == 8
    data = add(site, "--partition", "cpu", "--account", "vision")
    assert found(data)["defaults.slurm.account"] == "vision"
    assert "nodes.gpus_per_node" not in found(data)
    assert check(data["text"], "x").problems == ()


@pytest.mark.parametrize(
    ("partition", "refused"), [("debug", ["exclusive"]), ("short", ["mem"]), ("gpu", None)]
)
def test_what_the_site_refuses_of_whole_nodes_is_asked_without_a_job(
    site: Cluster, partition: str, refused: list[str] | None
) -> None:
    before = jobs(site)
    data = add(site, "--partition", partition)
    assert jobs(site) == before
    assert found(data).get("refuses") == refused
    profile = load_cluster(data["text"], "x").value
    assert list(profile.refuses) == (refused or [])
    how = next((line["how"] for line in data["found"] if line["key"] == "refuses"), "")
    assert ("sbatch --test-only" in how) == bool(refused)


def test_check_names_what_the_site_refuses_and_what_it_takes_by_now(site: Cluster) -> None:
    client = site.client
    words = ("cluster", "add", "debug", "--from", "testbed", "--partition", "debug", "--no-probe")
    assert client.jobgen(*words).returncode == 0
    file = site.layout.client_home / ".config/jobgen/clusters/debug.yaml"
    assert "refuses" in answer(client.jobgen("cluster", "check", "debug", "--json"))["same"]
    for wrong, said in (("[mem]", "exclusive"), ("[exclusive, mem]", "exclusive")):
        text = re.sub(r"refuses: \S+", f"refuses: {wrong}", file.read_text())
        file.write_text(text)
        done = client.jobgen("cluster", "check", "debug", "--json")
        assert done.returncode == 1
        (one,) = json.loads(done.stdout)["data"]["differences"]
        assert (one["key"], one["found"]) == ("refuses", f"[{said}]")
    file.unlink()


def test_a_node_tells_its_gpus_and_its_network(site: Cluster, tools: Path) -> None:
    data = add(site, "--partition", "lab", "--probe")
    assert data["node"] == "n2"
    values = found(data)
    assert values["nodes.gpu"] == "H100-SXM5-80GB"
    assert values["nodes.intra"] == "nvswitch"
    assert values["network.fabric"] == "infiniband"
    assert values["network.nic_gbps"] == 400
    near = "mlx5_0,mlx5_1,mlx5_2,mlx5_5,mlx5_6,mlx5_7,mlx5_8,mlx5_9"
    assert (values["network.nics"], values["network.ib_hca"]) == (8, near)
    assert values["network.socket_ifname"] == "eth0"
    assert values["network.internet"] is False
    assert values["versions.driver"] == "550.54.15"
    how = {line["key"]: line["how"] for line in data["found"]}
    assert how["nodes.gpu"] == "nvidia-smi on n2: NVIDIA H100 80GB HBM3, 81559 MiB"
    assert how["paths.root"].endswith("a job on n2 wrote there")
    assert load_cluster(data["text"], "x").value.network.fabric == "infiniband"
    left = [p.name for p in (site.layout.home / "tester").iterdir()]
    assert sorted(left) == [".bashrc", ".ssh", "bin"]


def test_check_is_equal_after_add_and_names_each_difference(site: Cluster, tools: Path) -> None:
    client = site.client
    words = ("cluster", "add", "lab", "--from", "testbed", "--partition", "lab", "--probe")
    done = client.jobgen(*words)
    assert done.returncode == 0, done.stderr
    file = site.layout.client_home / ".config/jobgen/clusters/lab.yaml"
    data = answer(client.jobgen("cluster", "check", "lab", "--probe", "--json"))
    assert data["equal"], data["differences"]
    assert {"nodes.gpu", "network.ib_hca", "limits.time"} <= set(data["same"])
    wrong = file.read_text().replace("gpus_per_node: 8", "gpus_per_node: 4")
    wrong = wrong.replace("time: 10:00:00", "time: 20:00:00").replace(
        "account: lab42", "account: x"
    )
    file.write_text(wrong.replace("fabric: infiniband", "fabric: roce"))
    done = client.jobgen("cluster", "check", "lab", "--probe", "--json")
    assert done.returncode == 1
    told = {one["key"]: one for one in json.loads(done.stdout)["data"]["differences"]}
    assert set(told) == {
        "nodes.gpus_per_node",
        "limits.time",
        "defaults.slurm.account",
        "network.fabric",
    }
    line = next(n for n, text in enumerate(wrong.splitlines(), 1) if "gpus_per_node" in text)
    assert told["nodes.gpus_per_node"]["place"].endswith(f"lab.yaml:{line}")
    assert told["nodes.gpus_per_node"]["found"] == "8"
    assert told["defaults.slurm.account"]["found"] == "lab42, vision"
    shown = client.jobgen("cluster", "check", "lab")
    assert shown.returncode == 1
    assert "differs  nodes.gpus_per_node: 4" in shown.stdout
    file.write_text(wrong.replace("partition: lab", "partition: labb"))
    done = client.jobgen("cluster", "check", "lab", "--probe")
    assert done.returncode == 1
    assert "found gpu, debug, short, cpu, lab" in done.stdout
    file.unlink()


def test_a_file_that_is_there_stays(site: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("mine\n")
    words = ("cluster", "add", "mine", "--from", "testbed", "--output", str(file))
    done = site.client.jobgen(*words)
    assert done.returncode == 2
    assert "exists. Replace it?" in done.stderr
    assert file.read_text() == "mine\n"
    assert site.client.jobgen(*words, "-y", "--no-probe").returncode == 0
    assert file.read_text().startswith("# What `jobgen cluster add mine` found on testbed")


@pytest.mark.parametrize(("said", "submitted"), [("n", False), ("y", True)])
def test_a_person_is_asked_before_a_job_is_submitted(
    site: Cluster, said: str, submitted: bool
) -> None:
    before = len(jobs(site))
    words = ["cluster", "add", "mine", "--from", "testbed", "--output", "-", "--partition", "cpu"]
    program, *rest = site.client.words([*JOBGEN, *words])
    terminal = pexpect.spawn(program, rest, encoding="utf-8", timeout=HANG, dimensions=(40, 200))
    terminal.expect("inspects one node .partition cpu account lab42.*y/N")
    terminal.sendline(said)
    terminal.expect("slurm_version")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 0
    assert len(jobs(site)) == before + submitted


def test_on_the_login_host_itself_no_ssh_is_written(site: Cluster) -> None:
    words = [*JOBGEN, "cluster", "add", "mine", "--output", "-", "--no-probe", "--json"]
    told = site.run("login", words, cwd=REPOSITORY)
    assert "ssh.host" not in found(answer(told))


def test_ctrl_c_cancels_the_job_that_looks_at_a_node(site: Cluster) -> None:
    blocker = site.sbatch("#!/bin/bash\nsleep 3600", "--exclusive", "-w", "n3", "-p", "cpu")
    site.wait_state(blocker, "RUNNING")
    words = ["cluster", "add", "mine", "--from", "testbed", "--output", "-", "--partition", "cpu"]
    program, *rest = site.client.words([*JOBGEN, *words, "--probe"])
    # as a terminal starts programs, however these tests were started
    own = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    terminal = spawn_on_terminal(program, rest, encoding="utf-8", timeout=HANG, preexec_fn=own)
    terminal.expect(r"job \d+: pending")
    terminal.sendintr()
    terminal.expect(pexpect.EOF)
    terminal.close()
    site.slurm("scancel", blocker)
    assert terminal.exitstatus == 130
    queue = site.slurm("squeue", "-h", "-t", "PD,R", "-n", "jobgen-probe", "-o", "%i")
    assert queue == ""
    assert not list((site.layout.home / "tester").glob("jobgen*"))


def test_what_goes_wrong_is_said_with_its_exit_code(site: Cluster) -> None:
    client = site.client
    words = ("cluster", "add", "mine", "--output", "-")
    none = client.jobgen(*words, "--from", "testbed", "--partition", "labb")
    assert (none.returncode, "known: gpu" in none.stderr) == (7, True), none.stderr
    away = client.jobgen(*words, "--from", "nowhere.invalid")
    assert away.returncode == 4, away.stderr
    here = client.jobgen(*words)
    assert (here.returncode, "there is no Slurm" in here.stderr) == (7, True), here.stderr
    for wrong in ("../up", "a #b", "a: b", "-x", "a\nb"):
        name = client.jobgen("cluster", "add", "--from", "testbed", "--", wrong)
        assert (name.returncode, "is not a valid cluster name" in name.stderr) == (3, True), (
            name.stderr
        )
    option = client.jobgen(*words, "--from=-oProxyCommand=x")
    assert (option.returncode, "is not a host" in option.stderr) == (3, True), option.stderr
    at = client.jobgen(*words, "--from", "tester@testbed", "--no-probe")
    assert "user: tester" in at.stdout, at.stderr
    refused = client.jobgen(
        *words, "--from", "testbed", "--partition", "lab", "--account", "nobody", "--probe"
    )
    assert refused.returncode == 5, refused.stderr
    assert "Invalid account" in refused.stderr
    hidden = client.jobgen(*words, "--from", "testbed", "--probe", "--root", "/tmp/only-here")
    assert hidden.returncode == 1, hidden.stderr
    assert "left no answer" in hidden.stderr


def test_a_job_that_does_not_start_is_cancelled(site: Cluster) -> None:
    blocker = site.sbatch("#!/bin/bash\nsleep 3600", "--exclusive", "-w", "n3", "-p", "cpu")
    site.wait_state(blocker, "RUNNING")
    words = ("cluster", "add", "mine", "--output", "-", "--from", "testbed", "--partition", "cpu")
    done = site.client.jobgen(*words, "--probe", "--wait", "3s")
    site.slurm("scancel", blocker)
    assert done.returncode == 124, done.stderr
    assert "was cancelled" in done.stderr
    states = site.slurm("squeue", "-h", "-t", "all", "-n", "jobgen-probe", "-o", "%T").split()
    assert set(states) <= {"CANCELLED", "COMPLETED", "FAILED"}


def test_the_profile_runs_a_job(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "found.yaml"
    words = ("cluster", "add", "found", "--from", "testbed", "--output", str(file), "--probe")
    done = cluster.client.jobgen(*words)
    assert done.returncode == 0, done.stderr
    profile = load_cluster(file.read_text(), "x").value
    assert profile.accounting == "none"
    assert (profile.nodes.count, profile.nodes.gpus_per_node) == (4, 8)
    assert (profile.network.fabric, profile.network.socket_ifname) == ("ethernet", "eth0")
    assert "account" not in profile.defaults.slurm
    assert cluster.client.jobgen("lint", str(file)).returncode == 0
    keys = {"run": "sh -c 'echo rank $SLURM_PROCID'", "launcher": "srun", "time": "5m"}
    folder = tmp_path / "job"
    folder.mkdir()
    job = write(folder, {"name": "small", "nodes": 2, "gpus_per_node": 2, **keys})
    run = submit(cluster, job, file)
    assert run.wait() == 0, run.story()
    assert {n: out.strip() for n, out in run.ranks().items()} == {
        n: f"rank {n}".encode() for n in range(4)
    }


PAGE = REPOSITORY / "docs" / "howto" / "clusters.md"
NOTE = re.compile(r"# note: .*\n")
SHOWN = re.compile(
    r"<!-- printed on the test cluster: (.+?) -->\n```console\n\$ .+?\n(.*?)```", re.S
)


def test_the_page_shows_what_is_printed(site: Cluster, tools: Path) -> None:
    """Two screens of the page, in its order: the second sees a profile that has grown old."""
    screens = dict(SHOWN.findall(PAGE.read_text(encoding="utf-8")))
    add, check = screens
    folder = site.layout.client_home / "clusters"
    folder.mkdir(exist_ok=True)
    told = site.client.jobgen(*shlex.split(add)[1:], env={"COLUMNS": "80"}, cwd=folder.parent)
    assert told.returncode == 0, told.stderr
    assert shown(site, told.stdout) == screens[add]
    old = NOTE.sub("", told.stdout).replace("gpus_per_node: 8", "gpus_per_node: 4")
    (folder / "mine.yaml").write_text(old.replace("nic_gbps: 400", "nic_gbps: 200"))
    told = site.client.jobgen("cluster", "trust", "mine", cwd=folder.parent)
    assert told.returncode == 0, told.stderr
    told = site.client.jobgen(*shlex.split(check)[1:], env={"COLUMNS": "80"}, cwd=folder.parent)
    assert told.returncode == 1, told.stderr
    assert shown(site, told.stdout) == screens[check]


def shown(site: Cluster, text: str) -> str:
    """What is printed with the home where it is elsewhere, and without what differs each time."""
    text = text.replace(f"{site.layout.home}/", "/home/")
    text = re.sub(r"(root: \S+) +#", lambda match: f"{match[1].ljust(38)}  #", text)
    text = re.sub(r"\d+ GiB free", "912 GiB free", text)
    return NOTE.sub("", text)
