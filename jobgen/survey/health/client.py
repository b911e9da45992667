"""This machine: jobgen, its folders and run database, ssh, and what the local cluster needs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobgen.errors import Diagnostic
from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines
from jobgen.survey.health import Answer, CheckRow, Verdict, fail, skip, succeed, warn, write_size
from jobgen.wording import count

LITTLE, SCARCE = 20 << 20, 1 << 30
"""Free bytes: too few for the run database, and few enough for a warning."""
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
    """This machine as it was found."""

    jobgen: str
    python: str
    system: str
    paramiko: str
    state: StateFolder
    config: StateFolder
    ledger: Diagnostic | None
    """What is wrong with the run database; None if nothing is."""
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
    """The release of torch that ``python`` on PATH would import; exit 1 where it has none."""


def _version(machine: ClientMachine) -> Verdict:
    found = f"jobgen {machine.jobgen}, Python {machine.python}, {machine.system}"
    major = machine.paramiko.partition(".")[0]
    if major.isascii() and major.isdecimal() and int(major) < 5:
        fix = "pip install 'paramiko>=5'"
        return fail(f"{found}; paramiko {machine.paramiko} is too old", fix, "J434")
    return succeed(found)


def _state(machine: ClientMachine) -> Verdict:
    folder = machine.state
    elsewhere = "or set JOBGEN_STATE_HOME to another folder"
    if not folder.writable:
        fix = f"chmod u+w {folder.path}, {elsewhere}"
        return fail(f"{folder.path} is not writable", fix, "J434")
    free = f", {write_size(folder.free)} free" if folder.free is not None else ""
    kind = f", on {folder.kind}" if folder.kind in NETWORKED else ""
    found = f"{folder.path}{kind}{free}" + (
        "" if folder.there else " (created by the first submit)"
    )
    if folder.free is not None and folder.free < SCARCE:
        fix = f"free some space there, {elsewhere}"
        return (fail if folder.free < LITTLE else warn)(found, fix, "J434")
    return succeed(found)


def _runs(machine: ClientMachine) -> Verdict:
    if machine.ledger is not None:
        return fail(machine.ledger.message, machine.ledger.hint, "J434")
    runs = f"{count(machine.runs, 'run')}, not locked" if machine.runs else "no runs yet"
    return succeed(f"run database with {runs}" if machine.runs else "no run database yet")


def _config(machine: ClientMachine) -> Verdict:
    folder = machine.config
    if folder.loose:
        fix = f"chmod go-w {folder.path} (its owner: ls -ld {folder.path})"
        return warn(f"other users can change your profiles in {folder.path}", fix, "J434")
    return succeed(folder.path if folder.there else f"{folder.path} (none yet; optional)")


def _clock(machine: ClientMachine) -> Verdict:
    if machine.now < machine.newest - BEHIND:
        return fail(
            "this machine's clock is earlier than the installation of jobgen",
            "set it: timedatectl set-ntp true",
            "J430",
        )
    return succeed("looks correct")


def _ssh(machine: ClientMachine) -> Verdict:
    if not machine.ssh.ok:
        fix = "install the OpenSSH client"
        return warn("ssh is not installed: Include and Match in ~/.ssh/config are ignored", fix)
    return succeed(machine.ssh.summarize.partition(",")[0])


def _keys(machine: ClientMachine) -> Verdict:
    held = len(split_lines(machine.agent.out)) if machine.agent.ok else 0
    files = f"{', '.join(machine.keys[:4])} in ~/.ssh" if machine.keys else ""
    if held:
        keys = "key" if held == 1 else "keys"
        return succeed(f"{held} {keys} in the ssh agent" + (f"; {files}" if files else ""))
    if machine.agent.late:
        return warn("the ssh agent does not answer", "restart it, or unset SSH_AUTH_SOCK")
    if machine.socket and machine.agent.code == 2:
        agent = "SSH_AUTH_SOCK points to an agent that no longer runs"
        fix = "unset SSH_AUTH_SOCK, or: eval $(ssh-agent) && ssh-add"
        return warn(f"{agent}; {files}" if files else agent, fix)
    if not files:
        fix = "ssh-keygen -t ed25519, then register the .pub file at your site; or: ssh-add FILE"
        return warn("no key in an ssh agent, and no default key in ~/.ssh", fix)
    return succeed(f"{files}, not loaded in an agent (keys with a passphrase need ssh-add)")


def _git(machine: ClientMachine) -> Verdict:
    if not machine.git.ok:
        return warn("git is not installed: runs will not record their commit", "install git")
    return succeed(machine.git.summarize)


def _programs(machine: ClientMachine) -> Verdict:
    gone = [name for name, there in machine.programs.items() if not there]
    if gone:
        fix = "install them (coreutils, util-linux, tar); -c local needs them"
        return warn(f"missing: {', '.join(gone)}", fix, "J437")
    found = re.match(r"(\d{1,3})\.", machine.bash.out, re.ASCII)
    if found and int(found[1]) < 4:
        fix = "put bash 4.0 or newer first on PATH; -c local needs it"
        return warn(f"bash {machine.bash.out}", fix, "J437")
    return succeed(f"bash {machine.bash.out[:20].strip()}, and all programs that job scripts use")


def _torch(machine: ClientMachine) -> Verdict:
    answer = machine.torch
    if answer.late:
        return skip("python did not answer in time")
    if not answer.ok:
        return warn(
            "python on PATH has no torch, which jobs on local need",
            "activate an environment with torch here, or under setup: in job.yaml",
            "J437",
        )
    return succeed(f"torch {answer.out.strip()[:40]}, in python on PATH")


ROWS: tuple[CheckRow[ClientMachine], ...] = (
    CheckRow("client.version", "jobgen, Python and paramiko fit together", _version),
    CheckRow("client.state", "the folder of the run database is writable and has room", _state),
    CheckRow("client.runs", "the run database is readable and not locked", _runs),
    CheckRow("client.config", "only you can change your profiles", _config),
    CheckRow("client.clock", "the clock looks correct", _clock),
    CheckRow("client.ssh", "ssh is installed", _ssh),
    CheckRow("client.keys", "there is a key to log in with", _keys),
    CheckRow("client.git", "runs record their git commit", _git),
)
LOCAL_ROWS: tuple[CheckRow[ClientMachine], ...] = (
    CheckRow("local.programs", "job scripts can run here", _programs),
    CheckRow("local.torch", "python on PATH has torch", _torch),
)
