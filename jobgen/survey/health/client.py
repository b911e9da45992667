"""This machine: jobgen itself, its folders and notebook, ssh, and what the local cluster needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from jobgen.errors import Diagnostic
from jobgen.shell import split_lines
from jobgen.survey.health import Answer, CheckRow, Verdict, fail, skip, succeed, warn

LITTLE, SCARCE = 20 << 20, 1 << 30
"""Bytes: too little for the notebook, and little enough to say so."""
BEHIND = 86400.0
"""Seconds by which the clock may be before the newest file of jobgen itself."""
LOCAL = ("bash", "setsid", "timeout", "tar", "sha256sum", "find", "stat", "tail")
"""Programs that jobs on the local cluster cannot do without."""
NETWORKED = frozenset({"nfs", "nfs4", "cifs", "lustre", "gpfs", "beegfs", "afs", "ceph", "9p"})


class StateFolder(NamedTuple):
    """A folder of jobgen's own, or the nearest there is above it."""

    path: str
    """As people write it, with ``~``."""
    there: bool
    writable: bool
    free: int | None = None
    """Bytes; None where that cannot be asked."""
    kind: str = ""
    """The file system, as the kernel calls it."""
    loose: bool = False
    """Whether others may write into it, or it is another's."""


class ClientMachine(NamedTuple):
    """What was found here."""

    jobgen: str
    python: str
    system: str
    paramiko: str
    state: StateFolder
    config: StateFolder
    ledger: Diagnostic | None
    """What is wrong with the notebook; None where nothing is."""
    runs: int
    now: float
    newest: float
    """When jobgen's newest file was written; the clock cannot be right before that."""
    ssh: Answer
    agent: Answer
    """``ssh-add -l``."""
    socket: str
    """The agent's, as the environment names it; empty where it names none."""
    keys: tuple[str, ...]
    """Private keys in ~/.ssh under their usual names."""
    git: Answer
    programs: Mapping[str, bool]
    bash: Answer
    torch: Answer
    """The release of torch that ``python3`` on PATH would import; exit 1 where it has none."""


def _version(machine: ClientMachine) -> Verdict:
    found = f"jobgen {machine.jobgen}, Python {machine.python}, {machine.system}"
    major = machine.paramiko.partition(".")[0]
    if major.isascii() and major.isdecimal() and int(major) < 5:
        fix = "pip install 'paramiko>=5'"
        return fail(f"{found}; paramiko {machine.paramiko} is too old", fix, "J434")
    return succeed(found)


def _state(machine: ClientMachine) -> Verdict:
    folder = machine.state
    elsewhere = "or set JOBGEN_STATE_HOME to a folder of yours"
    if not folder.writable:
        fix = f"chmod u+w {folder.path}, {elsewhere}"
        return fail(f"{folder.path} cannot be written", fix, "J434")
    free = f", {_size(folder.free)} free" if folder.free is not None else ""
    kind = f", on {folder.kind}" if folder.kind in NETWORKED else ""
    found = f"{folder.path}{kind}{free}" + ("" if folder.there else " (made by the first submit)")
    if folder.free is not None and folder.free < SCARCE:
        fix = f"free some space there, {elsewhere}"
        return (fail if folder.free < LITTLE else warn)(found, fix, "J434")
    return succeed(found)


def _ledger(machine: ClientMachine) -> Verdict:
    if machine.ledger is not None:
        return fail(machine.ledger.message, machine.ledger.hint, "J434")
    number = f"{machine.runs} run{'s' if machine.runs != 1 else ''}"
    return succeed(f"{number}, nobody holds it" if machine.runs else "empty")


def _config(machine: ClientMachine) -> Verdict:
    folder = machine.config
    if folder.loose:
        fix = f"chmod go-w {folder.path}; see who owns it: ls -ld {folder.path}"
        return warn(f"{folder.path}: others may change your profiles", fix, "J434")
    return succeed(folder.path if folder.there else f"{folder.path} (not there, and not needed)")


def _clock(machine: ClientMachine) -> Verdict:
    if machine.now < machine.newest - BEHIND:
        return fail(
            "this machine's clock is before the day on which jobgen was installed",
            "set it: timedatectl set-ntp true",
            "J430",
        )
    return succeed("not before the day on which jobgen was installed")


def _ssh(machine: ClientMachine) -> Verdict:
    if not machine.ssh.ok:
        fix = "install the OpenSSH client"
        return warn("no ssh program: Include and Match of ~/.ssh/config stay unread", fix)
    return succeed(machine.ssh.summarize.partition(",")[0])


def _keys(machine: ClientMachine) -> Verdict:
    held = len(split_lines(machine.agent.out)) if machine.agent.ok else 0
    files = f"{', '.join(machine.keys[:4])} in ~/.ssh" if machine.keys else ""
    if held:
        keys = "key" if held == 1 else "keys"
        return succeed(f"{held} {keys} in the agent" + (f"; {files}" if files else ""))
    if machine.agent.late:
        return warn("the ssh agent does not answer", "start it anew, or unset SSH_AUTH_SOCK")
    if machine.socket and machine.agent.code == 2:
        agent = "SSH_AUTH_SOCK names an agent that is gone"
        fix = "unset SSH_AUTH_SOCK, or: eval $(ssh-agent) && ssh-add"
        return warn(f"{agent}; {files}" if files else agent, fix)
    if not files:
        fix = "ssh-keygen -t ed25519, then add the .pub file at your site; or ssh-add FILE"
        return warn("no key in an agent and none of a usual name in ~/.ssh", fix)
    return succeed(f"{files}; no agent holds one (ssh-add, for keys with a passphrase)")


def _git(machine: ClientMachine) -> Verdict:
    if not machine.git.ok:
        return warn("not there: runs will not tell of which commit they are", "install git")
    return succeed(machine.git.summarize)


def _programs(machine: ClientMachine) -> Verdict:
    gone = [name for name, there in machine.programs.items() if not there]
    if gone:
        fix = "install them (coreutils, util-linux, tar); -c local needs them"
        return warn(f"not there: {', '.join(gone)}", fix, "J437")
    found = re.match(r"(\d{1,3})\.", machine.bash.out, re.ASCII)
    if found and int(found[1]) < 4:
        fix = "put a bash of at least 4.0 first on PATH; -c local needs it"
        return warn(f"bash {machine.bash.out}", fix, "J437")
    return succeed(f"bash {machine.bash.out[:20].strip()}, and all that job scripts use")


def _torch(machine: ClientMachine) -> Verdict:
    answer = machine.torch
    if answer.late:
        return skip("python3 does not answer in time")
    if not answer.ok:
        return warn(
            "python3 on PATH has no torch: jobs on local need it in their setup",
            "activate its environment first, or write it under setup: in job.yaml",
            "J437",
        )
    return succeed(f"torch {answer.out.strip()[:40]}, of python3 on PATH")


def _size(size: int) -> str:
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.3g} TiB"


ROWS: tuple[CheckRow[ClientMachine], ...] = (
    CheckRow("client.version", "jobgen, Python and paramiko fit together", _version),
    CheckRow(
        "client.state", "the folder of jobgen's notebook can be written, and has room", _state
    ),
    CheckRow("client.ledger", "the notebook can be read, and nobody holds it", _ledger),
    CheckRow("client.config", "nobody else can change your profiles", _config),
    CheckRow("client.clock", "the clock is not plainly wrong", _clock),
    CheckRow("client.ssh", "ssh reads your ssh configuration", _ssh),
    CheckRow("client.keys", "there is a key to log in with", _keys),
    CheckRow("client.git", "git tells of which commit a run is", _git),
)
LOCAL_ROWS: tuple[CheckRow[ClientMachine], ...] = (
    CheckRow("local.programs", "job scripts can run here", _programs),
    CheckRow("local.torch", "the python3 of a job here has torch", _torch),
)
