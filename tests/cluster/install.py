"""The files of a cluster, and its daemons started in the right order."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from tests.cluster import texts as text
from tests.cluster.layout import DEVICES, UID, USER, Layout

if TYPE_CHECKING:
    from tests.cluster.hosts import Hosts

PROGRAMS = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ip": "iproute2",
    "pdsh": "pdsh",
    "mpirun": "openmpi-bin",
}
ACCOUNTING_PROGRAMS = {"slurmdbd": "slurmdbd", "mariadbd": "mariadb-server"}
"""Programs that the cluster needs, and the Debian package of each."""


def missing(*, accounting: bool = False) -> str:
    """Why no cluster can run here, and what would help; empty where one can."""
    if os.geteuid() != 0:
        return "the test cluster needs root (it makes network namespaces)"
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    wanted = PROGRAMS | (ACCOUNTING_PROGRAMS if accounting else {})
    packages = sorted({p for name, p in wanted.items() if not shutil.which(name, path=path)})
    if packages:
        return f"not installed: {' '.join(packages)}"
    try:
        namespaces = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "true"]
        allowed = subprocess.run(namespaces, capture_output=True).returncode == 0
    except OSError:
        allowed = False
    return "" if allowed else "namespaces are not allowed here"


def no_cgroups() -> str:
    """Why no step can be kept from GPUs here; empty where one can."""
    there = (DEVICES / "devices.deny").exists()
    return "" if there else "this machine has no control groups of devices (cgroup v1)"


def files(layout: Layout) -> None:
    """Everything that lies on disk before the first host is switched on."""
    layout.root.chmod(0o755)
    for folder in (layout.log, layout.state, layout.dev, layout.small):
        folder.mkdir()
    layout.blank.touch(mode=0o644)
    for i in range(layout.options.gpus):
        # a driver's numbers, without a driver; a rule about /dev/null would be one about its own
        number = os.makedev(195, i) if layout.cgroup else os.makedev(1, 3)
        os.mknod(layout.dev / f"nvidia{i}", 0o020666, number)
    _etc(layout)
    _homes(layout)


def _etc(layout: Layout) -> None:
    """Two copies of /etc: what servers see, and what the client sees (no Slurm in it)."""
    etc = layout.etc
    subprocess.run(["cp", "-a", "/etc", etc], check=True)
    if layout.options.usr:
        # which of several programs awk is, and the like
        choices = Path(layout.options.usr).parent / "etc" / "alternatives"
        shutil.rmtree(etc / "alternatives")
        shutil.copytree(choices, etc / "alternatives", symlinks=True)
    _append(etc / "group", f"{USER}:x:{UID}:")
    _append(etc / "shadow", f"{USER}:*:19000:0:99999:7:::")
    _replace(etc / "nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
    _replace(etc / "hosts", text.hosts_file(layout))
    _replace(etc / "resolv.conf", "")
    # links: what differs is replaced below, and a thousand files cost half a second
    subprocess.run(["cp", "-al", etc, layout.client_etc], check=True)
    _passwd(etc / "passwd", {"root": layout.home / "root", USER: layout.home / USER})
    client = dict.fromkeys(("root", USER), layout.client_home)
    _passwd(layout.client_etc / "passwd", client)
    shutil.rmtree(etc / "slurm", ignore_errors=True)
    shutil.rmtree(layout.client_etc / "slurm", ignore_errors=True)
    (etc / "slurm").mkdir()
    _replace(etc / "slurm" / "slurm.conf", text.slurm_conf(layout))
    if layout.options.gpus:
        _replace(etc / "slurm" / "gres.conf", text.gres_conf(layout))
    _replace(etc / "slurm" / "cgroup.conf", text.cgroup_conf(layout))
    if layout.options.job_submit:
        _replace(etc / "slurm" / "job_submit.lua", text.job_submit_lua(layout))
    if layout.options.accounting:
        _replace(etc / "slurm" / "slurmdbd.conf", text.slurmdbd_conf(layout), mode=0o600)
    shutil.rmtree(etc / "munge", ignore_errors=True)
    (etc / "munge").mkdir(mode=0o700)
    (etc / "munge" / "munge.key").write_bytes(secrets.token_bytes(128))
    (etc / "munge" / "munge.key").chmod(0o400)
    _replace(etc / "ssh" / "testbed_sshd_config", text.SSHD_CONFIG)


def _homes(layout: Layout) -> None:
    """Homes with throwaway keys: client to login host, and between the nodes."""
    layout.client_home.mkdir()
    layout.scratch.mkdir()
    os.chown(layout.scratch, UID, UID)
    homes = {layout.client_home: 0, layout.home / "root": 0, layout.home / USER: UID}
    keys = layout.etc / "ssh" / "authorized_keys"
    keys.mkdir()
    known = ""
    for host in layout.servers:
        public = _key(layout.state / f"{host}.hostkey")
        known += f"{host},{layout.address(host)} {public}"
    _replace(layout.etc / "ssh" / "ssh_known_hosts", known)
    allowed = ""
    for home, uid in homes.items():
        (home / ".ssh").mkdir(parents=True, mode=0o700)
        allowed += _key(home / ".ssh" / "id_ed25519")
        (home / ".ssh" / "known_hosts").write_text(known, encoding="utf-8")
        for path in [home, *home.rglob("*")]:
            os.chown(path, uid, uid)
    for user in ("root", USER):
        _replace(keys / user, allowed)
    _replace(layout.client_home / ".ssh" / "config", text.client_ssh_config(layout), mode=0o600)


def daemons(hosts: Hosts) -> None:
    """Start what runs on the hosts: munge and sshd everywhere, then Slurm."""
    layout = hosts.layout
    munge = "mkdir -p /run/munge /run/sshd && munged --force --num-threads=2"
    paths = "--key-file=/etc/munge/munge.key --seed-file=/run/munge/seed --log-file=/run/munge/log"
    for host in layout.servers:
        hosts.run(host, f"{munge} {paths}", user="root")
        key = layout.state / f"{host}.hostkey"
        hosts.daemon(host, f"/usr/sbin/sshd -D -f /etc/ssh/testbed_sshd_config -h {key}")
    if layout.options.accounting:
        _accounting(hosts)
    start_controller(hosts)
    for node in layout.nodes:
        start_slurmd(hosts, node)


def start_controller(hosts: Hosts) -> None:
    hosts.run("login", ["mkdir", "-p", f"{hosts.layout.state}/ctld"], user="root")
    hosts.daemon("login", "slurmctld -D")


def start_slurmd(hosts: Hosts, node: str) -> None:
    hosts.run(node, ["mkdir", "-p", "/run/slurmd"], user="root")
    for group in filter(None, (hosts.layout.cgroup, hosts.layout.memory_group(node))):
        # a place of this cluster's own: others may run on this machine
        mounted = f"grep -q ' /{group.name} {group.parent} ' /proc/self/mountinfo"
        mount = f"mkdir -p {group} && mount --bind {group} {group.parent}"
        hosts.run(node, f"{mounted} || {{ {mount}; }}", user="root")
    hosts.daemon(node, f"slurmd -D -N {node}")


def _accounting(hosts: Hosts) -> None:
    """A database of its own behind slurmdbd, both on the login host."""
    data = hosts.layout.state / "mysql"
    hosts.run(
        "login",
        f"mkdir -p /run/mysqld && mariadb-install-db --no-defaults --user=root --skip-test-db"
        f" --auth-root-authentication-method=normal --skip-name-resolve --datadir={data}",
        user="root",
    )
    hosts.daemon(
        "login",
        f"mariadbd --no-defaults --user=root --datadir={data} --skip-networking"
        " --socket=/run/mysqld/mysqld.sock --pid-file=/run/mysqld/pid --skip-log-bin"
        " --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=16M",
    )
    wait = "for i in $(seq 300); do {} >/dev/null 2>&1 && exit 0; sleep 0.1; done; exit 1"
    hosts.run("login", wait.format("mariadb-admin --no-defaults ping"), user="root")
    hosts.daemon("login", "slurmdbd -D")
    hosts.run("login", wait.format("sacctmgr -i add cluster testbed"), user="root")


def _key(path: Path) -> str:
    """Make a key pair; the public line, without the comment."""
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)]
    subprocess.run(words, check=True)
    return Path(f"{path}.pub").read_text(encoding="utf-8").strip() + "\n"


def _passwd(path: Path, homes: dict[str, Path]) -> None:
    others = [
        line
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.split(":")[0] not in homes
    ]
    ours = [f"root:x:0:0:root:{homes['root']}:/bin/bash"]
    ours.append(f"{USER}:x:{UID}:{UID}::{homes[USER]}:/bin/bash")
    _replace(path, "\n".join([*ours, *others]) + "\n")


def _append(path: Path, line: str) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.write(line + "\n")


def _replace(path: Path, content: str, *, mode: int = 0o644) -> None:
    path.unlink(missing_ok=True)  # it may be a link out of the copy
    path.write_text(content, encoding="utf-8")
    path.chmod(mode)
