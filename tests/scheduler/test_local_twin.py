"""The local cluster as a scheduler: the commands that are made, run for real through a shell."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobgen.model.observation import Observation, format_mark
from jobgen.model.record import JobId, JobState, Login, Site
from jobgen.scheduler import Attempt, Scheduler, get_scheduler
from jobgen.scheduler.local_twin import LocalScheduler
from jobgen.shell import Command, Result
from tests.waiting import HANG, until

TOKEN = "abcdefghijklmnopqrstuvwxyz"


class Shell:
    """A POSIX shell with a home of its own, as the transport gives it."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def run(self, command: Command) -> Result:
        done = subprocess.run(
            ["/bin/sh", "-c", str(command)],
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            timeout=HANG,
        )
        return Result(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    home = tmp_path / "it's $odd"
    (home / "runs").mkdir(parents=True)
    (home / "job.sbatch").write_text("#!/bin/bash\nsleep 3600\n")
    opened = Shell(home)
    yield opened
    found = local().parse_own_jobs(opened.run(local().find())) or ()
    if found:
        opened.run(local().cancel([f.job for f in found]))


def local() -> Scheduler:
    return get_scheduler(Site("local", "local", Login("local"), "$HOME/runs"))


def submit(shell: Shell, attempt: int = 1) -> JobId:
    made = Attempt(("job.sbatch",), str(shell.home), TOKEN, attempt)
    command = local().submit(made, ("-N2",))
    job = local().parse_submit(shell.run(command))
    assert job is not None
    return job


def test_the_local_scheduler_is_a_scheduler() -> None:
    assert isinstance(local(), LocalScheduler)


def test_commands_name_this_python_and_the_state_beside_the_runs() -> None:
    words = str(local().query([JobId(7)]))
    assert words.startswith(f"{sys.executable} -I -S ")
    assert ' --state "${HOME}/runs/.local" squeue ' in words
    assert " --state /scratch/.local " in str(LocalScheduler("/scratch/").find())
    assert " --state /scratch/.local --nodes 1 " in str(LocalScheduler("/scratch/", nodes=1).find())


def test_a_job_is_submitted_seen_found_and_cancelled(shell: Shell) -> None:
    job = submit(shell)
    seen = wait(shell, job, JobState.RUNNING)
    assert (seen.nodes, seen.source, seen.workdir) == ("local[1-2]", "local", str(shell.home))
    assert seen.comment == f"jobgen:{format_mark(TOKEN)}:1"
    (found,) = local().parse_own_jobs(shell.run(local().find())) or ()
    assert (found.job, found.mark, found.attempt) == (job, format_mark(TOKEN), 1)
    assert shell.run(local().cancel([job])).code == 0
    assert wait(shell, job, JobState.CANCELLED).job == job


def test_a_signal_goes_to_the_batch_shell(shell: Shell) -> None:
    script = "#!/bin/bash\ntrap 'exit 3' USR1\necho up >up\nwhile :; do sleep 0.1; done\n"
    (shell.home / "job.sbatch").write_text(script)
    job = submit(shell)
    wait(shell, job, JobState.RUNNING)
    until((shell.home / "up").exists)
    shell.run(local().cancel([job], signal="USR1"))
    wait(shell, job, JobState.FAILED)


def test_what_is_gone_is_not_told_of_and_what_is_refused_is_so_for_sure(shell: Shell) -> None:
    assert local().parse_query(shell.run(local().query([JobId(99)]))) == {}
    assert local().query_history([JobId(99)]) is None
    assert local().find_past(3) is None
    command = local().submit(Attempt(("job.sbatch",), "/", TOKEN, 1), ("--nodes=99",))
    result = shell.run(command)
    assert local().is_refusal(result)
    assert local().parse_submit(result) is None


def test_a_state_that_others_may_change_is_refused_for_sure(shell: Shell) -> None:
    state = shell.home / "runs" / ".local"
    state.mkdir()
    state.chmod(0o777)
    result = shell.run(local().submit(Attempt(("job.sbatch",), "/", TOKEN, 1), ("-N1",)))
    assert "not a folder that only you may change" in result.error_text
    assert local().is_refusal(result)
    assert not list(state.iterdir())


def test_a_script_can_be_tried_without_submitting_it(shell: Shell) -> None:
    tried = local().parse_test(shell.run(local().test_only("job.sbatch", ("--nodes=2",))))
    assert tried.ok
    assert tried.start
    assert not local().parse_test(shell.run(local().test_only("job.sbatch", ("--nodes=99",)))).ok


def test_the_settings_tell_how_long_an_answer_may_be_late(shell: Shell) -> None:
    settings = local().parse_config(shell.run(local().show_config()))
    assert settings.ttl <= 60
    assert settings.min_job_age == 7 * 86400
    assert settings.accounting is False


def wait(shell: Shell, job: JobId, state: JobState) -> Observation:
    seen: dict[JobId, Observation] = {}

    def there() -> bool:
        seen.update(local().parse_query(shell.run(local().query([job]))) or {})
        return seen[job].state is state

    until(there, lambda: str(seen))
    return seen[job]
