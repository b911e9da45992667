"""The login host itself: clock, programs, environment."""

from __future__ import annotations

import re

from jobgen.named_tuple import NamedTuple
from jobgen.survey.health import (
    Answer,
    Answers,
    CheckRow,
    Verdict,
    fail,
    judge_silence,
    list_values,
    parse_fields,
    skip,
    succeed,
    warn,
)
from jobgen.survey.health.questions import SLURM, TOOLS

CLOCK_OFF = 5.0
"""Seconds by which clocks may differ before ages and times look wrong."""
CLOCK_FAR = 300.0
"""Seconds after which credentials are refused: munge's lifetime, and Kerberos's clock skew."""
OLDEST_BASH = (4, 0)
"""The release that brought ``mapfile``, which every rendered script uses."""


class Clock(NamedTuple):
    """The time there, and when here it was asked for and came; seconds since 1970."""

    there: float | None
    asked_at: float
    came: float

    @property
    def ahead(self) -> float:
        """Seconds by which the clock there is ahead, at least, whatever the way took."""
        if self.there is None or self.asked_at <= self.there <= self.came:
            return 0.0
        return self.there - (self.asked_at if self.there < self.asked_at else self.came)


class Host(NamedTuple):
    """The answers of the login host."""

    answers: Answers
    clock: Clock | None
    slurm: bool = True
    """Whether Slurm is expected there."""

    @property
    def shell(self) -> Answer:
        """The account, as its shell reports it."""
        return self.answers.get("shell", Answer())


def parse_time(text: str) -> float | None:
    """The answer of ``date +%s.%N`` in seconds; None where it is no time."""
    found = re.fullmatch(r"\s*(\d{9,11})(\.\d{1,9})?N?\s*", text, re.ASCII)
    return float(found[1] + (found[2] or "")) if found else None


def _clock(host: Host) -> Verdict | None:
    clock = host.clock
    if clock is None:
        return None
    if clock.there is None:
        return skip("date printed no time")
    ahead = clock.ahead
    way = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine's"
    fix = "synchronize the wrong clock with NTP (compare: date -u; ssh HOST date -u)"
    if abs(ahead) > CLOCK_FAR:
        return fail(f"clock is {way}: munge and Kerberos refuse credentials", fix, "J430")
    if abs(ahead) > CLOCK_OFF:
        return warn(f"clock is {way}: times and ages will look wrong", fix, "J430")
    return succeed("agrees with this machine's", clock.came - clock.asked_at)


def _account(host: Host) -> Verdict:
    answer = host.shell
    if bad := judge_silence(answer, "sh"):
        return bad
    told = parse_fields(answer.out)
    return succeed(
        f"{told.get('user', '?')} on {told.get('host', '?')}, {told.get('system', '?')}",
        answer.seconds,
    )


def _programs(host: Host) -> Verdict | None:
    if not host.shell.out:
        return None
    gone = [name for name in list_values(host.shell.out, "missing") if name in TOOLS]
    if gone:
        return fail(
            f"missing: {', '.join(gone)}",
            "check PATH in ~/.bashrc there, or ask your site to install them",
            "J433",
        )
    return succeed(f"all {len(TOOLS)} programs that jobgen's scripts use")


def _bash(host: Host) -> Verdict | None:
    if not host.shell.out:
        return None
    text = parse_fields(host.shell.out).get("bash", "")
    found = re.match(r"(\d{1,4})\.(\d{1,4})", text, re.ASCII)
    if not found:
        return skip("unknown version")
    if (int(found[1]), int(found[2])) < OLDEST_BASH:
        fix = "put a newer bash first on PATH, on the nodes too"
        return fail(f"bash {text}: job scripts need 4.0 or newer", fix, "J433")
    return succeed(text)


def _locale(host: Host) -> Verdict | None:
    if not host.shell.out:
        return None
    if list_values(host.shell.out, "nolocale"):
        return warn(
            "this machine's locale is not installed there, so programs print warnings",
            "remove SendEnv LANG LC_* from ~/.ssh/config, or set LC_ALL=C.UTF-8 in ~/.bashrc there",
            "J432",
        )
    return succeed(parse_fields(host.shell.out).get("locale", "") or "unset")


def _strays(host: Host) -> Verdict | None:
    if not host.shell.out or not host.slurm:
        return None
    names = list_values(host.shell.out, "stray")
    if not names:
        return succeed("no SBATCH_*, SLURM_* or SQUEUE_* variables at login")
    more = f" and {len(names) - 6} more" if len(names) > 6 else ""
    return warn(
        f"{', '.join(names[:6])}{more} set at login: they override #SBATCH lines if you run sbatch "
        "by hand (jobgen unsets them)",
        "find them: ssh HOST grep -rn SBATCH_ .bashrc .bash_profile .profile",
        "J431",
    )


def _umask(host: Host) -> Verdict | None:
    if not host.shell.out:
        return None
    text = parse_fields(host.shell.out).get("umask", "")
    if not re.fullmatch(r"[0-7]{3,4}", text):
        return skip("unknown")
    if int(text, 8) & 0o002 == 0:
        fix = "add umask 022 (or 077) to ~/.bashrc there"
        return warn(f"umask {text}: every user could change the files that your jobs write", fix)
    return succeed(text)


def _commands(host: Host) -> Verdict | None:
    if not host.shell.out or not host.slurm:
        return None
    gone = [name for name in list_values(host.shell.out, "missing") if name in SLURM]
    if gone:
        return fail(
            f"not on PATH at login: {', '.join(gone)}",
            "add their folder to PATH in ~/.bashrc there, above any early return; "
            "then test: ssh HOST command -v sbatch",
            "J420",
        )
    return succeed(parse_fields(host.shell.out).get("sbatch", "") or "there")


ROWS: tuple[CheckRow[Host], ...] = (
    CheckRow("host.account", "the account runs commands", _account),
    CheckRow("host.clock", "the clocks agree", _clock),
    CheckRow("host.bash", "bash is new enough for job scripts", _bash),
    CheckRow("host.programs", "programs that jobgen's scripts use are installed", _programs),
    CheckRow("host.locale", "the locale sent by ssh is installed", _locale),
    CheckRow("host.umask", "umask keeps other users from changing files", _umask),
    CheckRow("host.variables", "no variable changes the defaults of Slurm's commands", _strays),
    CheckRow("slurm.commands", "sbatch, squeue, scancel and scontrol are on PATH", _commands),
)
