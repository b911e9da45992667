"""The hosts of the test cluster as namespaces: one small process that makes and owns them.

Run as ``python -I -S hub.py CONFIG``; only the standard library, so that it starts at once.
The hub holds a bridge in a network namespace of its own. Every host is a process 1 in namespaces
of its own (network, mounts, processes, host name, IPC) with a veth into that bridge. The kernel
does the tidying: a host's process 1 dies with the hub, and takes all its processes, mounts and
interfaces along, whatever way the hub ended. With a lease (a pipe as standard input) the hub ends
when the other end is closed, so a test run that was killed leaves nothing behind.

One line of JSON on the control socket is one request: {"boot": NAME} → {"pid": N}.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x4000000, 0x8000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x1000, 0x4000, 0x40000
PR_SET_PDEATHSIG = 1
STICKY = ("/tmp", "/var/tmp", "/dev/shm")

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Host:
    """What one host is made of; every path is absolute."""

    name: str
    address: str
    etc: str
    """The folder that it sees as /etc."""
    usr: str
    """The folder that it sees as /usr; this machine's where it is empty."""
    cover: list[str]
    """Folders that are empty and its own, as /tmp is on a real node…"""
    keep: list[str]
    """…but for these paths, which every host shares."""
    mask: list[str]
    """Files that it sees as empty and not executable."""
    blank: str
    own_processes: bool


def checked(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    checked(libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    words = (source.encode(), target.encode(), kind.encode())
    done = libc.mount(*words, ctypes.c_ulong(flags), data.encode())
    checked(done, f"mount {source} {target}")


def die_with_parent() -> None:
    libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)


def ip(*lines: str, of: int | None = None) -> None:
    """Carry out ``ip`` commands in the hub's network namespace, or in that of process ``of``."""
    enter = ["nsenter", f"--net=/proc/{of}/ns/net"] if of else []
    subprocess.run([*enter, "ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def private_mounts() -> None:
    unshare(CLONE_NEWNS)
    mount("none", "/", flags=MS_REC | MS_PRIVATE)


def reap() -> None:
    """Collect the children that ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def cover(folders: list[str], keep: list[str]) -> None:
    """Put an empty file system over each folder, and what must stay visible back in its place."""
    held = [(path, os.open(path, os.O_PATH)) for path in sorted(keep) if Path(path).exists()]
    for folder in folders:
        mode = "1777" if folder in STICKY else "755"
        mount("tmpfs", folder, "tmpfs", MS_NOSUID, f"mode={mode}")
    for path, fd in held:
        if any(path.startswith(f"{folder}/") for folder in folders):
            Path(path).mkdir(parents=True, exist_ok=True)
            mount(f"/proc/self/fd/{fd}", path, flags=MS_BIND | MS_REC)
        os.close(fd)


def furnish(host: Host) -> None:
    """What a host sees: its own name, /etc, /proc and temporary folders; nothing where masked."""
    os.umask(0o022)
    socket.sethostname(host.name)
    if host.usr:
        mount(host.usr, "/usr", flags=MS_BIND | MS_REC)
    cover(host.cover, host.keep)
    mount(host.etc, "/etc", flags=MS_BIND | MS_REC)
    for path in filter(os.path.exists, host.mask):
        mount(host.blank, path, flags=MS_BIND)
    if host.own_processes:
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV)


def first_process(host: Host, ready: int) -> NoReturn:
    """Process 1 of a host: furnishes it, then collects its orphans until it is killed."""
    die_with_parent()
    try:
        furnish(host)
    except BaseException as error:  # noqa: BLE001 (told to the hub, and this process ends)
        os.write(ready, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)
    os.write(ready, b"ok\n")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.closerange(3, 256)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        signal.sigtimedwait({signal.SIGCHLD}, 1.0)
        reap()


def spawn(host: Host) -> int:
    """The process id, as the hub sees it, of a new host's process 1."""
    told, tell = os.pipe()
    if os.fork() == 0:  # stands between, because only a child enters a new process namespace
        die_with_parent()
        private_mounts()
        unshare(CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID)
        if (first := os.fork()) == 0:
            first_process(host, tell)
        os.write(tell, f"pid {first}\n".encode())
        os.closerange(0, 256)
        os.waitpid(first, 0)
        os._exit(0)
    os.close(tell)
    with os.fdopen(told) as stream:
        lines = stream.read().splitlines()
    pids = [int(line.split()[1]) for line in lines if line.startswith("pid ")]
    if "ok" not in lines or not pids:
        raise RuntimeError(f"host {host.name} did not start: {lines}")
    return pids[0]


def boot(host: Host) -> int:
    """Start a host and wire it to the bridge; the process id of its process 1."""
    pid, name = spawn(host), host.name
    ip(
        f"link add v-{name} type veth peer name eth0 netns {pid}",
        f"link set v-{name} master br0 up",
    )
    ip("link set lo up", f"addr add {host.address}/24 dev eth0", "link set eth0 up", of=pid)
    return pid


def answer(line: str, hosts: dict[str, Host]) -> dict[str, Any]:
    try:
        return {"pid": boot(hosts[json.loads(line)["boot"]])}
    except Exception as error:  # noqa: BLE001 (told to the one who asked)
        return {"error": f"{type(error).__name__}: {error}"}


def serve(hosts: dict[str, Host], control: socket.socket, *, leased: bool) -> None:
    while True:
        watched = [control.fileno(), *([0] if leased else [])]
        ready, _, _ = select.select(watched, [], [], 1.0)
        reap()
        if 0 in ready and not os.read(0, 100):
            return
        if control.fileno() in ready:
            link, _ = control.accept()
            with link, link.makefile("rw") as stream:
                stream.write(json.dumps(answer(stream.readline(), hosts)) + "\n")


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which then end us
    private_mounts()
    unshare(CLONE_NEWNET)
    ip("link set lo up", "link add br0 type bridge", "link set br0 up")
    for folder, size in config["tmpfs"].items():
        mount("tmpfs", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"size={size},mode=1777")
    control = socket.socket(socket.AF_UNIX)
    control.bind(config["control"] + ".new")
    control.listen(8)
    Path(config["control"] + ".new").rename(config["control"])
    hosts = {host["name"]: Host(**host) for host in config["hosts"]}
    serve(hosts, control, leased=config["lease"])


if __name__ == "__main__":
    main()
