"""At most one copy of a run goes on, whatever Slurm was made to accept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.script.job import Job
from tests.waiting import HANG

PROGRAM = '[[ $RANK != 0 ]] || echo "$SLURM_JOB_ID" >>"$JOBGEN_RUN_DIR/ran"\n'
REQUEUE = "{grace: 2s, requeue: true}"


def test_the_first_copy_claims_the_run_and_marks_its_start(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM)
    assert job.run(7).returncode == 0
    assert str((job.state("claim")).readlink()) == "7"
    assert os.path.lexists(job.state("started.0"))
    assert job.ran() == 1


def test_a_second_copy_does_nothing_and_touches_nothing(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM)
    job.run(7)
    marker = job.marker()
    second = job.run(8)
    assert second.returncode == 0
    assert "job 7 already runs in this run directory" in second.stderr
    assert job.ran() == 1
    assert job.marker() == marker


def run_with_a_full_log(job: Job, number: int) -> int:
    """The job's exit code where nothing more can be written to its log."""
    with Path("/dev/full").open("w") as full:
        return subprocess.run(
            job.words(),
            cwd=job.folder,
            env=job.environment(number, 0),
            stderr=full,
            timeout=HANG,
        ).returncode


def test_a_second_copy_does_nothing_where_the_disk_is_full(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM)
    job.run(7)
    assert run_with_a_full_log(job, 8) == 0
    assert job.ran() == 1


@pytest.mark.parametrize("name", ["node.sh", "rank.sh", "program.sh", "job.sbatch", "more.sh"])
def test_a_file_that_was_changed_after_submitting_is_not_run(tmp_path: Path, name: str) -> None:
    job = Job.make(tmp_path / "run", PROGRAM)
    words = job.words()
    with (job.folder / "bundle" / name).open("a") as file:
        file.write("echo >>$JOBGEN_RUN_DIR/ran\n")
    assert_refused(job, words)


@pytest.mark.skipif(bool(os.geteuid()), reason="only root can give files away")
def test_a_run_directory_of_another_user_or_of_other_files_is_not_run(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM)
    words = job.words()
    for name in (".", "bundle", "src"):
        os.chown(job.folder / name, 12345, -1)
        assert_refused(job, words)
        os.chown(job.folder / name, os.getuid(), -1)
    (job.folder / "TOKEN").unlink()
    (job.folder / "bundle" / "rank.sh").rename(job.folder / "rank.sh")
    assert_refused(job, words)
    (job.folder / "rank.sh").rename(job.folder / "bundle" / "rank.sh")
    (job.folder / "src").rename(job.folder / "elsewhere")
    (job.folder / "src").symlink_to("elsewhere")
    assert_refused(job, words)


def assert_refused(job: Job, words: list[str]) -> None:
    done = subprocess.run(
        words, cwd=job.folder, env=job.environment(7, 0), capture_output=True, timeout=HANG
    )
    assert done.returncode == 96
    assert (
        b"has changed since submission, or is not yours" in done.stderr
        or b"no rank.sh" in done.stderr
    )
    assert job.ran() == 0


def test_a_claim_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM)
    job.state("claim").mkdir(parents=True)  # as on a file system without room or without links
    done = job.run(7)
    assert done.returncode == 96
    assert "cannot create the link state/0/claim" in done.stderr
    assert job.ran() == 0


def test_a_failed_line_of_setup_ends_the_job_where_the_disk_is_full(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM, setup="['exit_code() { return 7; }', exit_code]")
    assert run_with_a_full_log(job, 7) == 7
    assert job.ran() == 0


def test_many_copies_at_once_make_one_execution(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM)
    copies = [job.start(number) for number in range(20, 28)]
    for copy in copies:
        copy.communicate(timeout=HANG)
    assert all(copy.returncode == 0 for copy in copies)
    assert job.ran() == 1
    assert (tmp_path / "run" / "ran").read_text().strip() == str((job.state("claim")).readlink())


def element(number: int, array: int, folder: Path) -> Job:
    """One of three elements of an array; Slurm gives the array's own id to one of them."""
    env = {"SLURM_ARRAY_JOB_ID": str(array), "SLURM_ARRAY_TASK_ID": str(number)}
    return Job(folder, env={**env, "SLURM_ARRAY_TASK_COUNT": "3"})


def test_elements_of_an_array_share_its_claim_and_a_second_array_gets_none(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    Job.make(folder, PROGRAM, array="4-6")
    (folder / "secrets.env").write_text("")
    assert element(5, 70, folder).run(71).returncode == 0
    second = element(4, 80, folder).run(80)
    assert "job 70 already runs in this run directory" in second.stderr
    assert element(4, 70, folder).run(72).returncode == 0
    assert (folder / "ran").read_text().split() == ["71", "72"]
    assert (folder / "secrets.env").exists()
    assert element(6, 70, folder).run(70).returncode == 0
    assert not (folder / "secrets.env").exists()


def test_an_element_is_requeued_by_its_index_because_one_has_the_id_of_the_array(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "run"
    stops = 'touch "$JOBGEN_STOP_FILE" "$JOBGEN_STOPPED_FILE"\n'
    Job.make(folder, stops, checkpoint=REQUEUE, array="4-6")
    element(6, 70, folder).run(70)
    assert (folder / "requeued").read_text() == "70_6\n"


def test_a_tombstone_stops_a_copy_that_has_not_started(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM)
    (job.folder / "cancel").touch()
    done = job.run()
    assert (done.returncode, job.ran()) == (0, 0)
    assert not os.path.lexists(job.state("claim"))


def test_a_finished_id_that_slurm_starts_again_does_nothing(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM)
    job.run(7)
    again = job.run(7)
    assert "a second time" in again.stderr
    assert (again.returncode, job.ran()) == (0, 1)


@pytest.mark.parametrize("requeue", [{}, {"checkpoint": REQUEUE}])
def test_a_run_that_failed_has_failed_when_slurm_starts_it_again(
    tmp_path: Path, requeue: dict[str, str]
) -> None:
    """What waits for its success must not start."""
    job = Job.make(tmp_path / "run", PROGRAM + "exit 3\n", **requeue)
    assert [job.run(7).returncode, job.run(7).returncode] == [3, 3]


def test_a_first_start_that_left_no_exit_code_is_no_success(tmp_path: Path) -> None:
    """The controller crashed before it had saved the start, killed the job and started it again."""
    job = Job.make(tmp_path / "run", PROGRAM)
    job.state("").mkdir(parents=True)
    job.state("started.0").symlink_to("7.1234")
    again = job.run(7)
    assert (again.returncode, job.ran()) == (96, 0)


def test_without_requeue_not_even_a_restart_goes_on(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM)
    job.run(7)
    job.run(7, restart=1)
    assert job.ran() == 1


def test_with_requeue_a_finished_run_does_not_start_again(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM, checkpoint=REQUEUE)
    job.run(7)
    again = job.run(7, restart=1)
    assert "started this run again after its end" in again.stderr
    assert job.ran() == 1


def test_with_requeue_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    """Preempted, or its node was lost: the same id comes back with a higher restart count."""
    slow = PROGRAM + (
        '[[ $RANK != 0 ]] || touch "$JOBGEN_RUN_DIR/up"\n[[ $JOBGEN_RESTART != 0 ]] || sleep 3600\n'
    )
    job = Job.make(tmp_path / "run", slow, checkpoint=REQUEUE)
    (job.folder / "secrets.env").write_text("export A=b\n")
    first = job.start(7)
    job.wait_for(job.folder / "up")
    first.terminate()
    first.communicate(timeout=HANG)
    assert job.marker()["end"] == "killed"
    assert (job.folder / "secrets.env").exists()
    assert job.run(7, restart=1).returncode == 0
    assert job.ran() == 2
    assert job.marker(1)["end"] == "finished"
    assert not (job.folder / "secrets.env").exists()


def test_by_hand_there_is_no_fence_and_every_job_has_its_own_folders(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM, token=False)
    assert job.run(7).returncode == job.run(8).returncode == 0
    assert job.ran() == 2
    assert job.state("exit.0", "7").exists()
    assert job.state("exit.0", "8").exists()
    assert (job.folder / "logs" / "8" / "0" / "n1.0.out").exists()


def test_a_script_without_its_files_says_so(tmp_path: Path) -> None:
    job = Job.make(tmp_path / "run", PROGRAM, token=False)
    (job.folder / "rank.sh").unlink()
    done = job.run()
    assert done.returncode == 96
    assert "in the directory of these files" in done.stderr
