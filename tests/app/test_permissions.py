from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from jobgen.app import clusters, permissions
from jobgen.app.permissions import (
    note_login,
    require_login,
    require_secrets,
    require_workdir,
    trust_profile,
)
from jobgen.app.world import World
from jobgen.catalog import find_shipped
from jobgen.errors import Usage
from jobgen.model.job import SecretRef
from jobgen.upload import scan
from jobgen.upload.ignore import Rules

PROFILE = """\
name: {name}
scheduler: slurm
ssh: {{host: {host}, user: {user}}}
paths: {{root: {root}}}
nodes: {{count: 1, gpus_per_node: 8, gpu: A100-SXM4-80GB}}
"""


class Person:
    """Answers every question in the same way, and remembers them."""

    def __init__(self, *, says: bool) -> None:
        self.says = says
        self.asked: list[str] = []

    def __call__(self, question: str) -> bool:
        self.asked.append(question)
        return self.says


@pytest.fixture
def world(tmp_path: Path) -> World:
    work = tmp_path / "project"
    (work / "clusters").mkdir(parents=True)
    home = tmp_path / "home"
    (home / ".config" / "jobgen" / "clusters").mkdir(parents=True)
    return World(environ={}, cwd=work, home=home)


def write(
    folder: Path, name: str = "theirs", *, host: str = "hpc", user: str = "ann", root: str = "/s/a"
) -> None:
    text = PROFILE.format(name=name, host=host, user=user, root=root)
    (folder / "clusters" / f"{name}.yaml").write_text(text)


def connect(world: World, name: str = "theirs") -> None:
    profile = clusters.find(world, name)
    require_login(world, profile.file, profile.site)


def test_a_login_of_a_projects_profile_is_asked_for_once(world: World) -> None:
    write(world.cwd)
    person = Person(says=True)
    asked = replace(world, consent=person)
    connect(asked)
    connect(asked)
    (question,) = person.asked
    assert all(part in question for part in ("hpc", "ann", "/s/a", "ann@hpc:/s/a"))
    connect(replace(world, consent=Person(says=False)))
    assert (world.state / permissions.FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("change", [{"host": "evil"}, {"user": "eve"}, {"root": "/s/e"}])
def test_another_host_user_or_root_is_another_login(world: World, change: dict[str, str]) -> None:
    write(world.cwd)
    connect(replace(world, consent=Person(says=True)))
    write(world.cwd, **change)
    with pytest.raises(Usage):
        connect(world)


def test_what_would_be_asked_is_known_before(world: World) -> None:
    write(world.cwd)
    theirs = clusters.find(world, "theirs")
    (note,) = note_login(world, theirs.file, theirs.site)
    assert (note.code, note.severity) == ("J187", "warning")
    assert note.hint == "if it is right: jobgen cluster trust theirs"
    trust_profile(world, theirs.file, theirs.site)
    assert note_login(world, theirs.file, theirs.site) == ()


def test_no_is_no_and_is_not_kept(world: World) -> None:
    write(world.cwd)
    person = Person(says=False)
    for _ in range(2):
        with pytest.raises(Usage) as caught:
            connect(replace(world, consent=person))
    assert len(person.asked) == 2
    assert "jobgen cluster trust theirs" in caught.value.problems[0].hint
    assert "--trust ann@hpc:/s/a" in caught.value.problems[0].hint


def test_the_command_names_the_login_exactly(world: World) -> None:
    write(world.cwd)
    for wrong in ("ann@hpc:/s", "hpc:/s/a", "ann@hpc", "ann@hpc:/s/a/", ""):
        with pytest.raises(Usage):
            connect(replace(world, trusted=frozenset({wrong})))
    connect(replace(world, trusted=frozenset({"ann@hpc:/s/a"})))
    connect(world)


def test_a_profile_that_is_trusted_by_its_name_is_not_asked_for(world: World) -> None:
    write(world.cwd)
    profile = clusters.find(world, "theirs")
    assert trust_profile(world, profile.file, profile.site) == "ann@hpc:/s/a"
    connect(world)


def test_the_users_own_profiles_and_the_shipped_ones_need_no_permission(world: World) -> None:
    write(world.config)
    connect(world)
    connect(world, "a100x16")
    connect(world, "local")
    assert not world.state.exists()


def test_a_profile_that_hides_a_shipped_one_is_asked_for_though_its_login_is_trusted(
    world: World,
) -> None:
    write(world.cwd)
    connect(replace(world, consent=Person(says=True)))
    write(world.cwd, "local")
    person = Person(says=True)
    connect(replace(world, consent=person), "local")
    connect(world, "local")
    assert "instead of the profile local that ships with jobgen" in person.asked[0]


def test_a_projects_profile_that_runs_jobs_on_this_machine_is_asked_for(world: World) -> None:
    text = (find_shipped("clusters") / "local.yaml").read_text().replace("name: local", "name: gpu")
    (world.cwd / "clusters" / "gpu.yaml").write_text(text)
    with pytest.raises(Usage) as caught:
        connect(world, "gpu")
    assert "this machine" in caught.value.problems[0].message


def test_a_fingerprint_of_a_project_does_not_stand_for_known_hosts(world: World) -> None:
    for folder in (world.cwd, world.config):
        write(folder, folder.name)
        path = folder / "clusters" / f"{folder.name}.yaml"
        pin = f"fingerprint: 'SHA256:{'A' * 43}'"
        path.write_text(path.read_text().replace("user: ann", pin))
    assert clusters.find(world, "project").site.login.known_hosts_too
    assert not clusters.find(world, "jobgen").site.login.known_hosts_too


def test_damaged_lines_of_the_kept_answers_are_passed_over(world: World) -> None:
    write(world.cwd)
    world.state.mkdir(parents=True)
    kept = world.state / permissions.FILE
    kept.write_bytes(b"\xff\n{}\n[1]\n[" + b"\n" + json.dumps(["login", "ann@hpc:/s/a"]).encode())
    connect(world)


def secret(path: str) -> SecretRef:
    return SecretRef(name="KEY", source="file", ref=path)


def test_a_secrets_file_beside_the_job_needs_no_permission(world: World) -> None:
    (world.cwd / "keys").mkdir()
    (world.cwd / "keys" / "key").write_text("x")
    require_secrets(world, [secret("keys/key"), SecretRef("A", "env", "A")], world.cwd)


@pytest.mark.parametrize("path", ["~/.ssh/id_ed25519", "../other/key", "link", "/etc/passwd"])
def test_a_secrets_file_elsewhere_is_asked_for_once(world: World, path: str) -> None:
    (world.cwd / "link").symlink_to(world.home / "key")
    with pytest.raises(Usage) as caught:
        require_secrets(world, [secret(path)], world.cwd)
    assert "--allow-outside" in caught.value.problems[0].hint
    person = Person(says=True)
    for _ in range(2):
        require_secrets(replace(world, consent=person), [secret(path)], world.cwd)
    assert len(person.asked) == 1
    other = world.cwd / "clusters"
    with pytest.raises(Usage):
        require_secrets(world, [secret(str(world.home / "key"))], other)


def test_the_command_allows_files_elsewhere(world: World) -> None:
    require_secrets(replace(world, outside=True), [secret("~/.ssh/id_ed25519")], world.cwd)


def test_a_workdir_that_is_not_of_the_job_s_project_is_asked_for_once(world: World) -> None:
    jobs = world.cwd / "repo" / "jobs"
    (jobs / "src").mkdir(parents=True)
    require_workdir(world, scan(jobs / "src"), jobs)
    with pytest.raises(Usage):
        require_workdir(world, scan(jobs.parent), jobs)
    (jobs.parent / ".git").mkdir()
    require_workdir(world, scan(jobs.parent), jobs)
    (world.home / "other").mkdir()
    (world.home / ".git").mkdir()
    for far in (world.cwd, world.home / "other"):
        with pytest.raises(Usage) as caught:
            require_workdir(world, scan(far), jobs)
        assert "--allow-outside" in caught.value.problems[0].hint
        require_workdir(replace(world, consent=Person(says=True)), scan(far), jobs)
        require_workdir(world, scan(far), jobs)


def test_secret_files_that_a_rule_takes_along_later_are_asked_for(world: World) -> None:
    jobs, data = world.cwd / "jobs", world.home / "data"
    data.mkdir()
    (data / ".env").write_text("A=b")
    require_workdir(replace(world, consent=Person(says=True)), scan(data), jobs)
    taken = scan(data, Rules(ignore=("!.env",)))
    with pytest.raises(Usage, match=r"it sends \.env of it"):
        require_workdir(world, taken, jobs)


def test_a_line_that_nobody_wrote_is_no_permission(world: World) -> None:
    world.state.mkdir(parents=True, exist_ok=True)
    (world.state / "permissions.jsonl").write_text("[" * 100_000 + "\nnull\n")
    require_workdir(replace(world, consent=Person(says=True)), scan(world.home), world.cwd)
