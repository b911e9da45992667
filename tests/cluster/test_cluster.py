"""The test cluster itself: what the other tests rely on is there, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import Cluster, Options, processes
from tests.waiting import HANG, until

pytestmark = pytest.mark.cluster

ALL_FOUR = """#!/bin/bash
#SBATCH --nodes=4 --gpus-per-node=8 --time=30 --output=four-%j.out
srun --ntasks-per-node=1 bash -c 'echo "$(hostname) $(id -un) $CUDA_VISIBLE_DEVICES"'
"""

ALL_REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(1)
dist.all_reduce(t)
line = f"rank {dist.get_rank()} of {dist.get_world_size()} sum {int(t)}\\n"
os.write(1, line.encode())
dist.barrier()
dist.destroy_process_group()
"""

TORCHRUN = """#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1 --time=30
export PATH={bin}:$PATH GLOO_SOCKET_IFNAME=eth0 OMP_NUM_THREADS=1
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)
export RDZV=$head:$((20000 + SLURM_JOB_ID % 10000)) ID=$SLURM_JOB_ID
srun --ntasks-per-node=1 --kill-on-bad-exit=1 bash -c 'exec torchrun --nnodes=2 \\
  --nproc-per-node=2 --rdzv-backend=c10d --rdzv-id=$ID --rdzv-endpoint=$RDZV \\
  --rdzv-conf=is_host=$((SLURM_NODEID == 0)) --local-addr=$(hostname) {program}'
"""


def test_four_nodes_run_one_step_as_an_ordinary_user(cluster: Cluster) -> None:
    job = cluster.sbatch(ALL_FOUR)
    assert cluster.wait_state(job) == "COMPLETED"
    lines = (cluster.scratch / f"four-{job}.out").read_text().splitlines()
    assert sorted(lines) == [f"n{i} tester 0,1,2,3,4,5,6,7" for i in range(1, 5)]


@pytest.mark.train
@pytest.mark.exhaustive
def test_torchrun_over_two_nodes_submitted_through_ssh(cluster: Cluster) -> None:
    """In make test: tests/e2e/test_same_job.py, by a rendered job."""
    program = cluster.scratch / "all_reduce.py"
    program.write_text(ALL_REDUCE)
    script = TORCHRUN.format(bin=Path(sys.executable).parent, program=program)
    submit = f"cd {cluster.scratch} && sbatch --parsable --output=torchrun.out"
    done = cluster.client.run(["ssh", "testbed", submit], stdin=script)
    assert done.returncode == 0, done.stderr
    state = cluster.wait_state(done.stdout.strip())
    text = (cluster.scratch / "torchrun.out").read_text()
    assert state == "COMPLETED", text
    said = sorted(line for line in text.splitlines() if line.startswith("rank"))
    assert said == [f"rank {i} of 4 sum 4" for i in range(4)]


def test_the_client_has_no_slurm_and_the_login_host_does(cluster: Cluster) -> None:
    local = cluster.client.run(["which", "sbatch", "squeue", "scancel"])
    remote = cluster.client.run(["ssh", "testbed", "hostname; id -un; command -v sbatch"])
    assert local.stdout == ""
    assert remote.stdout.split() == ["login", "tester", "/usr/bin/sbatch"]


def test_nodes_reach_each_other_by_ssh_and_pdsh(cluster: Cluster) -> None:
    done = cluster.run("n1", "PDSH_RCMD_TYPE=ssh pdsh -w n[1-4] hostname")
    assert sorted(done.stdout.splitlines()) == [f"n{i}: n{i}" for i in range(1, 5)]


def test_sacct_answers_only_with_accounting(cluster: Cluster, cluster_accounting: Cluster) -> None:
    without = cluster.run("login", "sacct", check=False)
    assert "accounting storage is disabled" in without.stderr
    job = cluster_accounting.sbatch("#!/bin/bash\nexit 3", "--comment=spoken")
    assert cluster_accounting.wait_state(job) == "FAILED"
    ask = f"sacct -X -n -P -j {job} -o JobID,State,ExitCode,Comment"
    until(lambda: "FAILED" in cluster_accounting.run("login", ask).stdout, "its line")
    told = cluster_accounting.run("login", ask).stdout.strip()
    assert told == f"{job}|FAILED|3:0|spoken"


def test_a_cut_node_is_out_of_reach_until_it_is_restored(cluster: Cluster) -> None:
    reach = "timeout 2 bash -c '</dev/tcp/n4/22'"
    assert cluster.run("login", reach, check=False).returncode == 0
    cluster.cut("n4")
    try:
        assert cluster.run("login", reach, check=False).returncode != 0
    finally:
        cluster.restore("n4")
    assert cluster.run("login", reach, check=False).returncode == 0


def test_a_frozen_controller_takes_the_connection_and_says_nothing(cluster: Cluster) -> None:
    with cluster.frozen_controller():
        assert cluster.run("login", "timeout 2 squeue", check=False).returncode == 124
    assert cluster.run("login", "squeue").returncode == 0


def test_processes_are_found_by_what_their_environment_holds(cluster: Cluster) -> None:
    script = "#!/bin/bash\nexport JOBGEN_TOKEN=abcdefgh\nsrun -N2 -n2 sleep 300"
    job = cluster.sbatch(script, "-N2", "--output=/dev/null")
    until(lambda: len(_sleepers(cluster)) == 2, "two sleepers")
    cluster.slurm("scancel", job)
    until(lambda: not cluster.processes_with_env("JOBGEN_TOKEN=abcdefgh"), "their end")
    assert cluster.wait_state(job) == "CANCELLED"


def _sleepers(cluster: Cluster) -> set[str]:
    found = cluster.processes_with_env("JOBGEN_TOKEN=abcdefgh")
    return {p.host for p in found if p.command.endswith("/sleep 300")}


def test_a_job_whose_slurmstepd_is_killed_does_not_look_completed(cluster: Cluster) -> None:
    job = cluster.sbatch("#!/bin/bash\nsleep 300", "-w", "n2", "--output=/dev/null", "--no-requeue")
    cluster.wait_state(job, "RUNNING")
    until(lambda: cluster.kill_slurmstepd("n2", job), "slurmstepd")
    cluster.slurm("scancel", job)
    assert cluster.wait_state(job) in {"CANCELLED", "FAILED", "NODE_FAIL"}


def test_the_small_disk_is_full_at_once(cluster: Cluster) -> None:
    fill = f"head -c 3000000 /dev/zero > {cluster.layout.small}/big"
    done = cluster.run("login", fill, check=False)
    assert "No space left" in done.stderr
    cluster.run("n2", f"rm {cluster.layout.small}/big")


def test_nothing_stays_behind_after_the_end() -> None:
    with Cluster.up(Options(nodes=1)) as cluster:
        root = cluster.layout.root
        cluster.run("login", "setsid sleep 1000 >/dev/null 2>&1 &")
        stray = subprocess.Popen(cluster.client.words(["sleep", "1000"]))
        pids = [cluster.hub, *cluster.pids.values()]
        own = {processes.namespace(pid, "net") for pid in pids}
        assert len(own) == 4, "the hub, the client, the login host and a node"
        # while they are open, no new namespace of another test gets their numbers
        held = [os.open(f"/proc/{pid}/ns/net", os.O_RDONLY) for pid in pids]
    stray.wait(HANG)
    assert not root.exists()
    assert not processes.with_environment(f"JOBGEN_TESTBED={root}")
    assert not own & {processes.namespace(pid, "net") for pid in processes.pids()}
    for each in held:
        os.close(each)
    assert str(root) not in Path("/proc/self/mountinfo").read_text()


def test_nothing_stays_behind_after_a_crash() -> None:
    program = (
        "import os, signal; from tests.cluster import Cluster, Options\n"
        "print(Cluster.up(Options(nodes=1)).layout.root, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    root = Path(done.stdout.strip())
    marker = f"JOBGEN_TESTBED={root}"
    until(lambda: not processes.with_environment(marker), "the end of all processes")
    assert root.exists(), "a killed process cannot remove its folder…"
    with Cluster.up(Options(nodes=1)):
        assert not root.exists(), "…but the next cluster's start does"


def test_a_cluster_brought_up_by_hand_outlives_the_command(tmp_path: Path) -> None:
    root = tmp_path / "c"
    words = [sys.executable, "-m", "tests.cluster"]
    here = Path(__file__).parents[2]
    up = [*words, "up", "--dir", str(root), "--nodes", "1"]
    subprocess.run(up, check=True, cwd=here, capture_output=True)
    try:
        run = [*words, "run", "--dir", str(root), "login", "squeue", "-h"]
        assert subprocess.run(run, cwd=here).returncode == 0
    finally:
        subprocess.run([*words, "down", "--dir", str(root)], check=True, cwd=here)
    assert not root.exists()
    assert not list(tmp_path.iterdir())
