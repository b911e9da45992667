"""``container: {login: …}``: each runtime gets the password, and nothing else ever shows it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from jobgen.errors import Invalid
from tests.resolve.made import job as write_job
from tests.resolve.made import plan
from tests.script.job import Job

PASSWORD = "canary'4711%s\\x"
IMAGE = "nvcr.io/team/image:1"
TELL = 'env -0 >"$JOBGEN_RUN_DIR/env.$RANK"\n'
DOCKER = """#!/bin/bash
printf '%s\\n' "$@" >>"$FAKE_DIR/argv"
case $1 in
    login) cat >"$FAKE_DIR/stdin.$SLURM_PROCID"
        stat -c '%a %n' "$DOCKER_CONFIG" >>"$FAKE_DIR/configs"
        touch "$DOCKER_CONFIG/config.json"; exit "${FAKE_LOGIN:-0}" ;;
    pull) ;;
    run) [[ -z ${DOCKER_CONFIG:-} ]] || echo "$DOCKER_CONFIG" >"$FAKE_DIR/kept"
        while [[ $1 != IMAGE ]]; do shift; done; exec "${@:2}" ;;
esac
""".replace("IMAGE", IMAGE)
APPTAINER = """#!/bin/bash
printf '%s\\n' "$@" >>"$FAKE_DIR/argv"
printf '%s' "$APPTAINER_DOCKER_USERNAME $APPTAINER_DOCKER_PASSWORD" >"$FAKE_DIR/login.$SLURM_PROCID"
while [[ $1 != docker://* ]]; do shift; done
exec "${@:2}"
"""


def make(folder: Path, runtime: str, password: str = PASSWORD, *, user: str = "$oauthtoken") -> Job:
    container = f"{{image: {IMAGE}, runtime: {runtime}, login: {{user: {user}, secret: KEY}}}}"
    job = Job.make(folder, TELL, container=container, secrets="[KEY]")
    for name, text in (("docker", DOCKER), ("apptainer", APPTAINER)):
        (job.folder / "fake" / name).write_text(text)
        (job.folder / "fake" / name).chmod(0o755)
    quoted = password.replace("'", "'\"'\"'")
    (job.folder / "secrets.env").write_text(f"export KEY='{quoted}'\n")
    return job


def find_password(job: Job, *, allowed: str) -> list[str]:
    """Files that hold it, but for what the stand-ins and the program wrote down."""
    paths = [path for path in job.folder.rglob("*") if path.is_file()]
    holds = [path for path in paths if PASSWORD.encode() in path.read_bytes()]
    return [path.name for path in holds if not path.name.startswith((allowed, "env."))]


def test_docker_pulls_with_a_configuration_that_is_gone_before_it_runs(tmp_path: Path) -> None:
    job = make(tmp_path / "run", "docker")
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert (job.folder / "stdin.0").read_text() == PASSWORD
    words = (job.folder / "argv").read_text().splitlines()
    assert "--username=$oauthtoken" in words
    assert "nvcr.io" in words
    for line in (job.folder / "configs").read_text().splitlines():
        mode, config = line.split(" ", 1)
        assert mode == "700"
        assert not Path(config).exists()
    assert not (job.folder / "kept").exists()
    assert find_password(job, allowed="stdin.") == []
    assert PASSWORD not in done.stdout + done.stderr


def test_a_login_that_docker_refuses_ends_the_job_and_leaves_nothing(tmp_path: Path) -> None:
    job = make(tmp_path / "run", "docker")
    job.env["FAKE_LOGIN"] = "1"
    done = job.run()
    assert done.returncode == 96
    assert f"docker cannot pull {IMAGE}" in done.stdout + done.stderr
    for line in (job.folder / "configs").read_text().splitlines():
        assert not Path(line.split(" ", 1)[1]).exists()


def test_apptainer_reads_it_from_its_environment_and_the_program_does_not(tmp_path: Path) -> None:
    job = make(tmp_path / "run", "apptainer")
    done = job.run()
    assert done.returncode == 0, done.stderr
    assert (job.folder / "login.0").read_text() == f"$oauthtoken {PASSWORD}"
    assert b"APPTAINER_DOCKER" not in (job.folder / "env.0").read_bytes()
    assert find_password(job, allowed="login.") == []


def test_enroot_reads_it_from_a_file_that_is_gone_at_the_end(tmp_path: Path) -> None:
    job = make(tmp_path / "run", "pyxis", user="me")
    srun = job.folder / "fake/srun"
    look = 'cp -r --preserve=mode "$ENROOT_CONFIG_PATH" "$FAKE_DIR/seen"\n'
    srun.write_text(srun.read_text().replace("#!/bin/bash\n", f"#!/bin/bash\n{look}", 1))
    done = job.run()
    assert done.returncode == 0, done.stderr
    seen = job.folder / "seen"
    rows = [
        f"machine {host} login me password {PASSWORD}" for host in ("nvcr.io", "authn.nvidia.com")
    ]
    assert (seen / ".credentials").read_text().splitlines() == rows
    modes = [path.stat().st_mode & 0o777 for path in (seen, seen / ".credentials")]
    assert modes == [0o700, 0o600]
    assert PASSWORD not in (job.folder / "srun").read_text()
    assert not [*job.folder.rglob("enroot.*")]
    assert find_password(job, allowed=".credentials") == []


@pytest.mark.parametrize("password", ["", "$(id)", "two words"])
def test_a_password_that_enroot_would_take_apart_ends_the_job(
    tmp_path: Path, password: str
) -> None:
    done = make(tmp_path / "run", "pyxis", password).run()
    assert done.returncode == 97
    assert "secret KEY is not set, or no password that enroot can read" in done.stderr


@pytest.mark.parametrize(
    ("image", "secrets", "code"),
    [(IMAGE, "", "J153"), ("/shared/image.sif", "secrets: [KEY]\n", "J216")],
)
def test_a_login_needs_its_secret_and_a_registry(image: str, secrets: str, code: str) -> None:
    login = f"container: {{image: {image}, runtime: apptainer, login: {{user: a, secret: KEY}}}}\n"
    with pytest.raises(Invalid) as caught:
        plan(write_job() + secrets + login)
    assert [problem.code for problem in caught.value.problems] == [code]


def test_secrets_of_a_killed_job_are_removed_with_those_of_enroot(tmp_path: Path) -> None:
    from jobgen.submission import scripts

    (tmp_path / "state/0/enroot.0").mkdir(parents=True)
    for name in ("TOKEN", "secrets.env", "state/0/enroot.0/.credentials"):
        (tmp_path / name).write_text("token\n")
    script = scripts.sweep([(str(tmp_path), "token")])
    subprocess.run(["sh", "-c", script], env={"PATH": os.environ["PATH"]}, check=True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["TOKEN"]
