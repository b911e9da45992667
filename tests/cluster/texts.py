"""The text of a cluster's configuration files."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

from tests.cluster.layout import SSH_ALIAS, USER, Layout

FOLDER_OF_PYTHON = Path(__file__).with_name("python")
"""What every Python of a job imports first, and why, stands in its ``sitecustomize.py``."""


def slurm_conf(layout: Layout) -> str:
    o = layout.options
    auth = [f"cred_expire={o.requeue_wait}", *([f"ttl={o.munge_ttl}"] if o.munge_ttl else [])]
    nodes = f"n[1-{o.nodes}]" if o.nodes > 1 else "n1"
    half = max(1, o.nodes // 2)
    lines = [
        "ClusterName=testbed",
        "SlurmctldHost=login",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo={','.join(auth)}",
        f"MessageTimeout={o.message_timeout}",
        f"SlurmdTimeout={o.slurmd_timeout}",
        "BatchStartTimeout=60",
        "InactiveLimit=0",
        "KillWait=5",
        "OverTimeLimit=0",
        "MinJobAge=300",
        "ReturnToService=2",
        "ProctrackType=proctrack/linuxproc",
        f"TaskPlugin={o.task_plugin}",
        *(["JobSubmitPlugins=lua"] if o.job_submit else []),
        "MpiDefault=none",
        "SelectType=select/cons_tres",
        f"SelectTypeParameters={'CR_CPU_Memory' if o.enforce_memory else 'CR_CPU'}",
        "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=5,bf_interval=5",
        "SlurmdParameters=config_overrides",
        "PropagateResourceLimitsExcept=MEMLOCK",
        "GresTypes=gpu",
        f"StateSaveLocation={layout.state}/ctld",
        "SlurmdSpoolDir=/run/slurmd",
        "SlurmctldPidFile=/run/slurmctld.pid",
        "SlurmdPidFile=/run/slurmd.pid",
        f"SlurmctldLogFile={layout.log}/slurmctld.log",
        f"SlurmdLogFile={layout.log}/%n.slurmd.log",
        *(ACCOUNTING if o.accounting else ["AccountingStorageType=accounting_storage/none"]),
        *(
            f"NodeName={n} CPUs={o.cpus} RealMemory={o.memory_mb}{_gres(layout, n)}"
            f" Feature={'ib' if i < half else 'roce'},rack{i // half + 1} State=UNKNOWN"
            for i, n in enumerate(layout.nodes)
        ),
        f"PartitionName=gpu Nodes={nodes} Default=YES MaxTime=7-00:00:00 State=UP",
        "PartitionName=debug Nodes=n1 MaxTime=30 State=UP",
        f"PartitionName=short Nodes={nodes} MaxTime=30 State=UP",
        *o.conf,
    ]
    return "\n".join(lines) + "\n"


def _gres(layout: Layout, node: str) -> str:
    return f" Gres={gres}" if (gres := layout.gres(node)) else ""


def cgroup_conf(layout: Layout) -> str:
    """GPUs that a step was not given are hidden from it, where there are control groups at all."""
    if layout.options.usr:
        return "CgroupPlugin=disabled\n"
    constrain = ["CgroupPlugin=cgroup/v1", "ConstrainDevices=yes"] if layout.cgroup else []
    memory = ["ConstrainRAMSpace=yes"] if layout.options.enforce_memory else []
    return "\n".join(["CgroupAutomount=no", *constrain, *memory]) + "\n"


def job_submit_lua(layout: Layout) -> str:
    """What the controller asks of every job; the body is the test's own."""
    return f"""function slurm_job_submit(job, partitions, uid)
{layout.options.job_submit}
    return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid)
    return slurm.SUCCESS
end
"""


ACCOUNTING = (
    "AccountingStorageType=accounting_storage/slurmdbd",
    "AccountingStorageHost=login",
    "AccountingStorageTRES=gres/gpu",
    "AccountingStoreFlags=job_comment",
    "JobAcctGatherType=jobacct_gather/linux",
    "JobAcctGatherFrequency=5",
)


def gres_conf(layout: Layout) -> str:
    lines = ["AutoDetect=off"]
    for node in layout.nodes:
        if gres := layout.gres(node):
            name, kind, number = gres.split(":")
            last = int(number) - 1
            files = f"{layout.dev}/nvidia[0-{last}]" if last else f"{layout.dev}/nvidia0"
            lines.append(f"NodeName={node} Name={name} Type={kind} File={files}")
    return "\n".join(lines) + "\n"


def slurmdbd_conf(layout: Layout) -> str:
    return "\n".join(
        [
            "AuthType=auth/munge",
            "DbdHost=login",
            "SlurmUser=root",
            "StorageType=accounting_storage/mysql",
            "StorageHost=localhost",
            "StorageUser=root",
            "StorageLoc=slurm",
            "PidFile=/run/slurmdbd.pid",
            f"LogFile={layout.log}/slurmdbd.log",
            "",
        ]
    )


SSHD_CONFIG = """\
Port 22
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
AuthorizedKeysFile /etc/ssh/authorized_keys/%u
PermitRootLogin prohibit-password
MaxStartups 100:30:200
UseDNS no
PrintMotd no
PrintLastLog no
Subsystem sftp internal-sftp
"""


def client_ssh_config(layout: Layout) -> str:
    return "\n".join(
        [
            f"Host {SSH_ALIAS}",
            "  HostName login",
            f"  User {USER}",
            f"  IdentityFile {layout.client_home}/.ssh/id_ed25519",
            "  IdentitiesOnly yes",
            f"  UserKnownHostsFile {layout.client_home}/.ssh/known_hosts",
            "",
        ]
    )


def hosts_file(layout: Layout) -> str:
    names = ["client", *layout.servers]
    return "127.0.0.1 localhost\n" + "".join(f"{layout.address(n)} {n}\n" for n in names)


def profile(layout: Layout) -> dict[str, Any]:
    """This cluster as a cluster.yaml."""
    o = layout.options
    programs, python = (
        shlex.quote(str(folder)) for folder in (Path(sys.executable).parent, FOLDER_OF_PYTHON)
    )
    return {
        "name": "testbed",
        "scheduler": "slurm",
        "ssh": {"host": SSH_ALIAS},
        "paths": {"root": str(layout.scratch)},
        "nodes": {"count": o.nodes, "cpus": o.cpus, "mem": f"{o.memory_mb // 1000}G"},
        "procs_per_node": 2,
        "network": {"fabric": "ethernet", "socket_ifname": "eth0", "internet": False},
        "defaults": {
            "setup": f"export PATH={programs}:$PATH PYTHONPATH={python}",
            "env": {"OMP_NUM_THREADS": "1"},
        },
    }
