"""The hosts of a cluster: switched on, entered, and removed without a trace."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tests.cluster import processes
from tests.cluster.layout import DEVICES, MEMORY, UID, USER, Layout
from tests.cluster.processes import Process
from tests.waiting import HANG, until

Words = str | Sequence[str]
Done = subprocess.CompletedProcess[str]

PREFIX = "jobgen-testbed-"
MARKER = "JOBGEN_TESTBED"
"""In the environment of all that is started on a host: its value is the cluster's folder."""
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


class Hosts:
    """Namespaces that pass for a client, a login host and compute nodes on one network."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.pids: dict[str, int] = {}
        self.hub = 0
        self._hub: subprocess.Popen[bytes] | None = None

    def switch_on(self, *, lease: bool) -> None:
        """Start the hub and all hosts; with ``lease`` they end when this process does."""
        layout = self.layout
        config = layout.root / "hub-config.json"
        config.write_text(json.dumps(layout.hub(lease=lease)), encoding="utf-8")
        script = str(Path(__file__).with_name("hub.py"))
        with (layout.log / "hub.log").open("wb") as log:
            self._hub = subprocess.Popen(
                [sys.executable, "-I", "-S", script, str(config)],
                stdin=subprocess.PIPE if lease else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={"PATH": SYSTEM_PATH, MARKER: str(layout.root)},
            )
        self.hub = self._hub.pid
        self.record()
        until(layout.control.exists, "the hub to answer")
        for host in ["client", *layout.servers]:
            self.boot(host)

    def boot(self, host: str) -> None:
        """Switch a host on: its namespaces and network; no daemon runs yet."""
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(self.layout.control))
            link.sendall(json.dumps({"boot": host}).encode() + b"\n")
            with link.makefile() as stream:
                answer = json.loads(stream.readline())
        if "pid" not in answer:
            raise RuntimeError(answer["error"])
        self.pids[host] = answer["pid"]
        self.record()

    def power_off(self, host: str) -> None:
        """Pull the plug: every process of the host is killed, its link goes."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pids[host], signal.SIGKILL)
        until(lambda: not processes.started(self.pids[host]), f"{host} to be off")

    def down(self) -> None:
        """End every process of the cluster and remove its folder."""
        if self.hub:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.hub, signal.SIGKILL)
        if self._hub:
            if self._hub.stdin:
                self._hub.stdin.close()
            self._hub.wait()
        remove(self.layout.root, self.pids.values())

    def record(self) -> None:
        """Write down what there is, so that another process can use it, or tidy up after us."""
        data = {
            "hub": self.hub,
            "started": processes.started(self.hub),
            "pids": self.pids,
            "options": vars(self.layout.options),
        }
        new = self.layout.record.with_suffix(".new")
        new.write_text(json.dumps(data), encoding="utf-8")
        new.rename(self.layout.record)

    def enter(
        self,
        host: str,
        *,
        user: str = USER,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> list[str]:
        """The words to put before a command so that it runs on that host as that user.

        On the client the process keeps its process id here, so it can be signalled from here.
        """
        client = host == "client"
        kinds = ["-n", "-u", "-m"] if client else ["-n", "-u", "-m", "-i", "-p"]
        home = self.layout.client_home if client else self.layout.home / user
        base = {
            "HOME": str(home),
            "USER": user,
            "LOGNAME": user,
            "PATH": SYSTEM_PATH,
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            MARKER: str(self.layout.root),
        }
        settings = [f"{name}={value}" for name, value in {**base, **(env or {})}.items()]
        ids = [f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        become = [] if user == "root" else ["setpriv", *ids]
        inside = [*become, "env", "-i", f"--chdir={cwd or home}", *settings]
        return ["nsenter", "-t", str(self.pids[host]), *kinds, "--", *inside]

    def run(
        self,
        host: str,
        command: Words,
        *,
        user: str = USER,
        check: bool = True,
        stdin: str = "",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Done:
        """Run a command on a host; a text is a bash command line. A failure is an error."""
        words = ["bash", "-c", command] if isinstance(command, str) else list(command)
        limit = ["timeout", "-s", "KILL", f"{HANG:g}"]
        done = subprocess.run(
            [*self.enter(host, user=user, env=env, cwd=cwd), *limit, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=HANG + 60,
        )
        if check and done.returncode:
            told = f"{done.stdout}{done.stderr}"
            raise AssertionError(f"{host}: {command}: exit {done.returncode}\n{told}")
        return done

    def daemon(self, host: str, command: str) -> None:
        """Start a program on a host, as root, and leave it running there."""
        log = self.layout.log / f"{host}.daemons.log"
        self.run(host, f"setsid {command} >>{log} 2>&1 </dev/null &", user="root")

    def processes(self, host: str, name: str = "") -> list[Process]:
        """The live processes of a host, or those among them that are called ``name``."""
        home = processes.namespace(self.pids[host], "uts")
        found = (pid for pid in processes.pids() if processes.namespace(pid, "uts") == home)
        every = [Process(pid, host, processes.command(pid)) for pid in found]
        return [p for p in every if p.command and (not name or _name(p.pid) == name)]

    def processes_with_env(self, token: str) -> list[Process]:
        """The live processes of all hosts in whose environment this text stands as a value."""
        names = {processes.namespace(pid, "uts"): host for host, pid in self.pids.items()}
        found = []
        for pid in processes.pids():
            host = names.get(processes.namespace(pid, "uts"))
            if host and token.encode() in processes.read(pid, "environ"):
                found.append(Process(pid, host, processes.command(pid)))
        return found

    def cut(self, host: str) -> None:
        """Take the host off the network: nothing arrives, and no reset is sent."""
        self._link(host, "down")

    def restore(self, host: str) -> None:
        """Put it back."""
        self._link(host, "up")

    def _link(self, host: str, state: str) -> None:
        net = f"--net=/proc/{self.hub}/ns/net"
        subprocess.run(["nsenter", net, "ip", "link", "set", f"v-{host}", state], check=True)


def _name(pid: int) -> str:
    return processes.read(pid, "comm").decode(errors="replace").strip()


def remove(root: Path, hosts: Iterable[int] = ()) -> None:
    """What is left of a cluster whose hub has ended: stray clients, and the folder."""
    with contextlib.suppress(TimeoutError):
        until(lambda: not any(map(processes.started, hosts)), "the hosts to end")
    for pid in processes.with_environment(f"{MARKER}={root}"):
        if pid != os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    for groups in (DEVICES / root.name, *MEMORY.glob(f"{root.name}-*")):
        for group in sorted((p for p in groups.rglob("*") if p.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                group.rmdir()
        with contextlib.suppress(OSError):
            groups.rmdir()
    shutil.rmtree(root, ignore_errors=True)


def sweep() -> None:
    """Remove the clusters of test runs that ended without tidying up."""
    for record in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/hub.json"):
        with contextlib.suppress(OSError, ValueError):
            data = json.loads(record.read_text(encoding="utf-8"))
            if not data["started"] or processes.started(data["hub"]) != data["started"]:
                remove(record.parent, data["pids"].values())
