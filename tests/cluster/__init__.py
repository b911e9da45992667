"""A real Slurm cluster on one machine, for tests: up in seconds, gone without a trace.

Hosts are network, mount, process and host-name namespaces on a bridge of their own: ``client``
(where jobgen runs; it sees no Slurm), ``login`` (sshd, slurmctld) and ``n1`` … ``n4`` (sshd,
slurmd, eight GPUs that are only claimed). Nothing listens on this machine itself.

In a test::

    pytestmark = pytest.mark.cluster          # one xdist worker runs all of these

    def test_a_job_ends(cluster, tmp_path):   # or cluster_accounting: with slurmdbd
        profile = cluster.profile()           # a cluster.yaml: ssh, ethernet, 4 nodes of 2 ranks
        done = cluster.client.jobgen("submit", "job.yaml", "-c", str(profile), cwd=tmp_path)

    cluster.profile(procs_per_node=1, ssh={"backend": "openssh"})   # merged into the usual one
    cluster.client.words(["jobgen", "logs", "-f", "@last"])         # for Popen and pexpect
    cluster.run("login", "squeue")            # as the ordinary user `tester`; user="root" too
    cluster.slurm("scontrol", "show", "node") # as root on the login host
    cluster.sbatch("#!/bin/bash\nhostname")   → the job id
    cluster.wait_state(job, "RUNNING")        # without states: until it has ended
    cluster.start_now(job)                    # a requeued job waits two minutes otherwise
    cluster.processes_with_env(token)         # over all hosts, from their /proc/*/environ
    cluster.scratch                           # the shared disk, readable at the same path here
    cluster.layout.small                      # a shared disk of 1 MB, to be filled (on the hosts)

What can go wrong: ``cut(host)`` and ``restore(host)`` (the link), ``power_off(host)``,
``freeze()``/``thaw()`` or ``with frozen_controller():``, ``crash_controller()`` and
``restart_controller()``, ``kill_slurmstepd(node, job)``, ``signal(host, program, SIGKILL)``.
A test that breaks something repairs it, or brings up a cluster of its own:
``with Cluster.up(Options(message_timeout=5, munge_ttl=20)) as cluster: …``.

By hand, from the repository's root, as root::

    python -m tests.cluster up [--dir DIR] [--accounting]     prints DIR and how to use it
    python -m tests.cluster run --dir DIR HOST COMMAND…
    python -m tests.cluster down --dir DIR

Traps: /tmp, /run and /dev/shm are each host's own; the repository, the Python in use and the
cluster's folder are shared. Jobs run as an ordinary user and see ``sys.prefix`` read-only.
A process on ``login`` or a node has another process id there than here.
"""

from tests.cluster.cluster import ENDED, Cluster
from tests.cluster.layout import Options

__all__ = ["ENDED", "Cluster", "Options"]
