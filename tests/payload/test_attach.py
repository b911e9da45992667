"""attach.sh and beside_rank.sh beside real processes: environment, working directory, container."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobgen.payload import text
from tests.shellcheck import shellcheck
from tests.waiting import HANG, until

OWN = ["unshare", "--user", "--map-root-user", "--mount"]
DOCKER = """#!/bin/bash
printf '%s\\n' "$*" >>"$FAKE/log"
case $1 in
ps) [[ $* == "ps --quiet --filter volume=$FAKE_RUN${FAKE_LABEL:-}" ]] && echo c0ffee ;;
exec)
    shift
    while [[ $1 == --* ]]; do shift; done
    [[ $1 == c0ffee ]] && INSIDE=yes exec "${@:2}" ;;
esac
"""


@contextmanager
def rank(run: Path, env: Mapping[str, str], enter: Sequence[str] = ()) -> Iterator[Path]:
    """A process of this environment that passes for rank 0 on n1; the file with its number."""
    (run / "src").mkdir(parents=True, exist_ok=True)
    file = run / "pid"
    program = f"{env.get('BEFORE', '')}\ntouch '{run}/up'; exec sleep 1000"
    child = subprocess.Popen(
        [*enter, "bash", "-c", program],
        env={
            "PATH": os.environ["PATH"],
            "JOBGEN_RUN_DIR": str(run),
            **env,
        },
        cwd=env.get("PWD", str(run / "src")),
    )
    try:
        until(lambda: (run / "up").exists() or child.poll() is not None, "the rank")
        file.write_text(f"{child.pid}\n")
        yield file
    finally:
        child.kill()
        child.wait()


def attach(
    run: Path, file: Path, *words: str, runtime: str = "", env: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    head = ["bash", "-c", text("attach.sh"), "attach.sh", text("beside_rank.sh")]
    return subprocess.run(
        [*head, str(run), str(file), runtime, "llama n1", *words],
        capture_output=True,
        text=True,
        timeout=HANG,
        env=env,
        stdin=subprocess.DEVNULL,
    )


def test_a_command_has_the_environment_of_the_rank_and_none_of_the_login_s(tmp_path: Path) -> None:
    odd = "a=b=\n'\"$x\\ é="
    env = {"ODD": odd, "EMPTY": "", "JOBGEN_RANK_ID": "1.2.", "RANK": "0"}
    login = {**os.environ, "LOGIN_ONLY": "x", "RANK": "9", "TERM": "vt220"}
    shows = 'printf \'%s|\' "$ODD" "${EMPTY-unset}" "${JOBGEN_RANK_ID-unset}" "$RANK"'
    shows += ' "${LOGIN_ONLY-unset}" "$TERM" "$PWD"'
    with rank(tmp_path / "run", env) as file:
        done = attach(tmp_path / "run", file, "bash", "-c", shows, env=login)
    assert done.stdout.split("|") == [
        *(odd, "", "unset", "0", "unset", "vt220"),
        str(tmp_path / "run" / "src"),
        "",
    ]
    assert done.stderr == ""


def test_a_command_starts_where_the_rank_started(tmp_path: Path) -> None:
    (tmp_path / "else where").mkdir()
    with rank(tmp_path / "run", {"PWD": str(tmp_path / "else where")}) as file:
        assert attach(tmp_path / "run", file, "pwd").stdout == f"{tmp_path}/else where\n"


def test_functions_of_the_site_come_with_the_environment(tmp_path: Path) -> None:
    env = {"BASH_FUNC_module%%": "() {  echo module $1\n}", "BASH_FUNC_a;b%%": "() { echo bad; }"}
    with rank(tmp_path / "run", env) as file:
        done = attach(tmp_path / "run", file, "bash", "-c", "module load")
    assert (done.stdout, done.stderr) == ("module load\n", "")


def test_the_exit_code_is_that_of_the_command(tmp_path: Path) -> None:
    with rank(tmp_path / "run", {}) as file:
        assert attach(tmp_path / "run", file, "sh", "-c", "exit 7").returncode == 7
        assert attach(tmp_path / "run", file, "no such program").returncode == 127


def test_without_a_rank_it_is_said_that_the_environment_is_another(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "src").mkdir(parents=True)
    for content in ("", "no number", "999999999"):
        (run / "pid").write_text(content)
        done = attach(run, run / "pid", "pwd")
        assert done.stdout == f"{run}/src\n"
        assert "no rank runs here" in done.stderr


def test_a_process_of_another_run_that_has_the_number_by_now_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "mine" / "src").mkdir(parents=True)
    with rank(tmp_path / "other", {"WHOSE": "other"}) as file:
        done = attach(tmp_path / "mine", file, "sh", "-c", "echo ${WHOSE-nobody}")
    assert done.stdout == "nobody\n"


@pytest.mark.skipif(
    subprocess.run([*OWN, "true"], capture_output=True).returncode != 0,
    reason="user namespaces are not permitted here",
)
def test_the_container_of_the_rank_is_entered(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "image").mkdir(parents=True)
    before = f"mount -t tmpfs none '{run}/image' && echo inside >'{run}/image/where'"
    with rank(run, {"BEFORE": before, "RANK": "3"}, OWN) as file:
        words = ("sh", "-c", 'cat "$0/image/where"; echo $RANK; pwd', str(run))
        done = attach(run, file, *words, runtime="apptainer")
        assert not (run / "image" / "where").exists()
    assert (done.stdout, done.stderr) == (f"inside\n3\n{run}/src\n", "")


def test_it_is_said_where_a_container_cannot_be_entered(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with rank(run, {"ONLY_INSIDE": "x"}) as file:
        words = ("sh", "-c", "echo ${ONLY_INSIDE-outside}")
        done = attach(run, file, *words, runtime="apptainer")
        assert done.stdout == "outside\n"
        assert "cannot enter the container: its runtime was installed with root" in done.stderr
        absent = attach(run, run / "none", *words, runtime="pyxis")
        assert "no rank runs in it on this node" in absent.stderr


def test_docker_enters_the_container_that_mounts_the_run(tmp_path: Path) -> None:
    run, fake = tmp_path / "run", tmp_path / "bin"
    fake.mkdir()
    (fake / "docker").write_text(DOCKER)
    (fake / "docker").chmod(0o755)
    env = {"PATH": f"{fake}:{os.environ['PATH']}", "FAKE": str(fake), "FAKE_RUN": str(run)}
    with rank(run, {"RANK": "2"}) as file:
        done = attach(run, file, "sh", "-c", "echo $RANK", runtime="docker", env=env)
        assert (done.stdout, done.stderr) == ("2\n", "")
        assert "exec --interactive c0ffee bash -c" in (fake / "log").read_text()
        other = attach(tmp_path, file, "true", runtime="docker", env=env)
    assert "docker lists none that mounts" in other.stderr


def test_docker_enters_the_container_of_the_group(tmp_path: Path) -> None:
    """Groups that share a node run in different ones."""
    run, fake = tmp_path / "run", tmp_path / "bin"
    fake.mkdir()
    (fake / "docker").write_text(DOCKER)
    (fake / "docker").chmod(0o755)
    env = {"PATH": f"{fake}:{os.environ['PATH']}", "FAKE": str(fake), "FAKE_RUN": str(run)}
    env["FAKE_LABEL"] = " --filter label=jobgen.step=serve"
    with rank(run, {"RANK": "2"}) as file:
        mine, other = (file.with_name(f"{name}@n1.0") for name in ("serve", "train"))
        for each in (mine, other):
            each.write_text(file.read_text())
        done = attach(run, mine, "sh", "-c", "echo $RANK", runtime="docker", env=env)
        assert (done.stdout, done.stderr) == ("2\n", "")
        done = attach(run, other, "true", runtime="docker", env=env)
    assert "docker lists none that mounts" in done.stderr


@pytest.mark.parametrize("name", ["attach.sh", "beside_rank.sh"])
def test_shellcheck_finds_nothing(name: str) -> None:
    done = subprocess.run(
        [shellcheck(), "--shell=bash", "-"], input=text(name), capture_output=True, text=True
    )
    assert done.stdout == ""
