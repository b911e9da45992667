"""What of a working directory is sent, what is not, and what is refused."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobgen.errors import Exit, Invalid
from jobgen.upload import Manifest, Rules, scan
from tests.git import git


def fill(root: Path, *paths: str, text: str = "x") -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def files(root: Path, *patterns: str, **more: object) -> list[str]:
    return [e.path for e in scan(root, Rules(patterns, **more)).files]  # type: ignore[arg-type]


def refused(root: Path, rules: Rules | None = None) -> Invalid:
    with pytest.raises(Invalid) as caught:
        scan(root, rules)
    assert caught.value.exit is Exit.INVALID
    assert all(p.hint and p.code != "J000" for p in caught.value.problems)
    return caught.value


def test_without_rules_everything_but_git_is_sent(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", "pkg/a.py", ".git/config", "pkg/.git", ".hidden", "z/y/x")
    assert files(tmp_path) == [".hidden", "train.py", "pkg/a.py", "z/y/x"]


def test_pythons_caches_stay_unless_a_rule_names_them(tmp_path: Path) -> None:
    fill(tmp_path, "a.py", "__pycache__/a.cpython-311.pyc", "pkg/__pycache__/b.pyc", "c/d.pyc")
    assert files(tmp_path) == ["a.py", "c/d.pyc"]
    named = files(tmp_path, "!pkg/__pycache__/")
    assert named == ["a.py", "c/d.pyc", "pkg/__pycache__/b.pyc"]


def test_what_was_pulled_of_a_run_is_not_sent_with_the_next(tmp_path: Path) -> None:
    fill(tmp_path, "train.py", "llama-3/.jobgen-pulled", "llama-3/metrics.json", "out/a.json")
    assert files(tmp_path) == ["train.py", "out/a.json"]


def test_a_gitignore_is_followed_where_there_is_no_own_file(tmp_path: Path) -> None:
    fill(tmp_path, "a.py", "a.log", "runs/1/b", "keep.log")
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n/runs/\n# comment\n\n")
    assert files(tmp_path) == [".gitignore", "a.py", "keep.log"]
    assert scan(tmp_path).rules_from == ".gitignore"


def test_the_own_file_wins_over_gitignore(tmp_path: Path) -> None:
    fill(tmp_path, "a.py", "a.log", "data.bin")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / ".jobgenignore").write_text("*.bin\n")
    assert files(tmp_path) == [".gitignore", ".jobgenignore", "a.log", "a.py"]


def test_a_named_ignore_file_is_used_and_must_exist(tmp_path: Path) -> None:
    fill(tmp_path, "a.py", "b.py")
    (tmp_path / ".gitignore").write_text("a.py\n")
    (tmp_path / "other").write_text("b.py\n")
    assert files(tmp_path, ignore_file="other") == [".gitignore", "a.py", "other"]
    assert refused(tmp_path, Rules(ignore_file="absent")).problems[0].code == "J190"


def test_patterns_of_the_job_come_before_the_files(tmp_path: Path) -> None:
    fill(tmp_path, "a.log", "b.log", "c.py")
    (tmp_path / ".gitignore").write_text("*.log\n")
    assert files(tmp_path, "!a.log", "c.py", ".gitignore") == ["a.log"]


def test_nested_ignore_files_speak_for_their_own_directory(tmp_path: Path) -> None:
    fill(tmp_path, "a.txt", "pkg/a.txt", "pkg/b.txt", "pkg/sub/b.txt", "pkg/sub/a.txt", "b.txt")
    (tmp_path / ".gitignore").write_text("a.txt\n")
    (tmp_path / "pkg/.gitignore").write_text("!a.txt\n/b.txt\n")
    assert set(files(tmp_path)) == {
        ".gitignore",
        "b.txt",
        "pkg/.gitignore",
        "pkg/a.txt",
        "pkg/sub/a.txt",
        "pkg/sub/b.txt",
    }


LINES = [
    "*.a",
    "!x.a",
    "/d",
    "d/",
    "!d/",
    "d/*",
    "**/x.a",
    "d/**/x.b",
    "!*.b",
    "*",
    "!*/",
    "e",
    "\\!x",
]
LINES += ["d/**", "e/d/**", "**/e", "**", "x.?", "[xy].a", "!/d/x.a", "# x", "d/e/", "*/x.b"]
TREE = [f"{d}{n}" for d in ("", "d/", "d/e/", "e/", "e/d/") for n in ("x.a", "y.a", "x.b", "!x")]


@pytest.mark.skipif(not shutil.which("git"), reason="no git here: apt-get install git")
def test_rules_mean_what_git_says_they_mean(tmp_path: Path) -> None:
    fill(tmp_path, *TREE)
    git(tmp_path, "init", "-q")
    lines = st.lists(st.sampled_from(LINES), max_size=6)

    @settings(max_examples=100, suppress_health_check=list(HealthCheck))
    @given(top=lines, nested=lines)
    def same(top: list[str], nested: list[str]) -> None:
        (tmp_path / ".gitignore").write_text("\n".join(top) + "\n")
        (tmp_path / "d/.gitignore").write_text("\n".join(nested) + "\n")
        listed = git(tmp_path, "ls-files", "-z", "--others", "--exclude-standard")
        assert set(files(tmp_path)) == set(listed.split("\0")[:-1])

    same()


@pytest.mark.parametrize("between", "\v\f\r\x1c\x85\u2028")
def test_a_rule_ends_at_a_line_feed_only(tmp_path: Path, between: str) -> None:
    fill(tmp_path, "one", "two.py", "three")
    (tmp_path / ".gitignore").write_bytes(f"one{between}two.py\r\nthree\r\n".encode())
    git(tmp_path, "init", "-q")
    listed = git(tmp_path, "ls-files", "-z", "--others", "--exclude-standard")
    assert files(tmp_path) == listed.split("\0")[:-1] == [".gitignore", "one", "two.py"]


SECRETS = [".env", ".env.local", "a/server.pem", "tls.key", "id_rsa", "id_ed25519", "id_deploy"]
SECRETS += [".netrc", ".ssh/config", ".aws/credentials", ".git-credentials", "x.p12"]


def test_what_looks_like_a_secret_stays_and_is_listed(tmp_path: Path) -> None:
    fill(tmp_path, *SECRETS, "id_map.py", "id_rsa.pub", ".env.example", "keyboard.py", "env.py")
    manifest = scan(tmp_path)
    assert {e.path for e in manifest.files} == {
        "id_map.py",
        "id_rsa.pub",
        ".env.example",
        "keyboard.py",
        "env.py",
    }
    whole = {name if not name.startswith((".ssh", ".aws")) else name[:4] for name in SECRETS}
    assert set(manifest.withheld) == whole


@pytest.mark.parametrize("rule", ["!.env", "!/.env", "!**/.env", "!.env*", "!.e?v"])
def test_a_secret_that_a_rule_names_is_sent(tmp_path: Path, rule: str) -> None:
    fill(tmp_path, ".env", "server.pem")
    assert files(tmp_path, rule) == [".env"]
    (tmp_path / ".jobgenignore").write_text(rule + "\n")
    assert ".env" in files(tmp_path)


@pytest.mark.parametrize("rule", ["!*", "!**", "!src/", "!src/**", "!**/*", "!*.py"])
def test_a_rule_that_opens_everything_opens_no_secret(tmp_path: Path, rule: str) -> None:
    fill(tmp_path, "src/.env", "src/id_rsa")
    assert files(tmp_path, "*.bin", rule) == []
    assert len(scan(tmp_path, Rules((rule,))).withheld) == 2


def test_a_secret_is_not_sent_by_another_name_through_a_link(tmp_path: Path) -> None:
    fill(tmp_path, ".env", text="TOKEN=1")
    (tmp_path / "settings").symlink_to(".env")
    entries = {e.path: e for e in scan(tmp_path).entries}
    assert entries["settings"].kind == "link"
    assert ".env" not in entries


def test_links_inside_stay_links_and_absolute_ones_become_relative(tmp_path: Path) -> None:
    root = fill(tmp_path / "work", "pkg/real.py", "data/a")
    (root / "pkg/link.py").symlink_to("real.py")
    (root / "up").symlink_to("pkg/../data")
    (root / "pkg/whole").symlink_to(root / "data" / "a")
    (root / "dangling").symlink_to("not-yet")
    (tmp_path / "alias").symlink_to(root)
    (root / "by-alias").symlink_to(tmp_path / "alias" / "data")
    links = {e.path: e.target for e in scan(root).entries if e.kind == "link"}
    assert links == {
        "pkg/link.py": "real.py",
        "up": "pkg/../data",
        "pkg/whole": "../data/a",
        "dangling": "not-yet",
        "by-alias": "data",
    }


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../other", "..", "pkg/../../other", "../here/train.py", "/", "hop"]
)
def test_a_link_that_leads_out_is_refused_by_name(tmp_path: Path, target: str) -> None:
    root = fill(tmp_path / "here", "train.py", "pkg/x")
    (tmp_path / "other").mkdir()
    (root / "hop").symlink_to("../other")
    (root / "leak").symlink_to(target)
    error = refused(root, Rules(("hop",) if target != "hop" else ("/hop",)))
    assert error.problems[0].code == "J191"
    assert f"leak -> {target}" in str(error)
    assert files(root, "leak", "hop") == ["train.py", "pkg/x"]


def test_a_link_that_may_not_be_read_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(_: Path) -> Path:
        raise PermissionError(13, "as for a process of somebody else below /proc")

    fill(tmp_path, "a")
    (tmp_path / "link").symlink_to("a")
    monkeypatch.setattr(Path, "readlink", closed)
    error = refused(tmp_path)
    assert [p.code for p in error.problems] == ["J194"]
    assert "link" in str(error)


def test_a_link_to_itself_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert [e.kind for e in scan(tmp_path).entries] == ["link"]


def test_sockets_pipes_and_devices_are_refused(tmp_path: Path, monkeypatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as plug:
        plug.bind("sock")
    assert refused(tmp_path).problems[0].code == "J192"
    assert {"pipe", "sock"} <= set(str(refused(tmp_path)).replace(",", " ").split())
    assert files(tmp_path, "pipe", "sock") == []


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31m", "tab\t", "\x7f"])
def test_a_name_with_control_characters_is_refused_and_made_harmless(
    tmp_path: Path, name: str
) -> None:
    fill(tmp_path, name)
    error = refused(tmp_path)
    assert error.problems[0].code == "J193"
    assert str(error).isprintable()


def test_other_odd_names_are_sent(tmp_path: Path) -> None:
    names = ["a b", "it's", "-rf", "$HOME", "back\\slash", "umläut", "\udcff", "*", "日本", "  "]
    fill(tmp_path, *names)
    assert sorted(files(tmp_path)) == sorted(names)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_said(tmp_path: Path) -> None:
    fill(tmp_path, "closed", "dir/x")
    (tmp_path / "closed").chmod(0)
    (tmp_path / "dir").chmod(0)
    error = refused(tmp_path)
    (tmp_path / "dir").chmod(0o700)
    assert "closed" in str(error)
    assert "dir" in str(error)


def test_a_directory_that_is_too_big_names_its_biggest_files(tmp_path: Path) -> None:
    for n in range(7):
        (tmp_path / f"f{n}").write_bytes(bytes(1000 * (n + 1)))
    error = refused(tmp_path, Rules(max_size=20_000))
    assert error.problems[0].code == "J195"
    assert all(f"f{n} " in str(error) for n in (6, 5, 4, 3, 2))
    assert "f1 " not in str(error)
    assert "max_size" in error.problems[0].hint
    assert scan(tmp_path, Rules(max_size=28_000)).total == 28_000


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    fill(tmp_path, "a\nb")
    (tmp_path / "out").symlink_to("/etc")
    assert {p.code for p in refused(tmp_path).problems} == {"J191", "J192", "J193"}


def test_no_directory_is_said(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="not a directory"):
        scan(tmp_path / "absent")


def test_what_is_ignored_is_weighed_by_its_top_level_entry(tmp_path: Path) -> None:
    fill(tmp_path, ".git/a", "wandb/run/b", "wandb/c", "src/x.pyc", "src/y.py", text="12345")
    manifest = scan(tmp_path, Rules(("wandb/", "*.pyc")))
    weighed = [(i.path, i.files, i.size) for i in manifest.ignored]
    assert weighed == [("wandb", 2, 10), (".git", 1, 5), ("src", 1, 5)]


def test_a_huge_ignored_directory_is_not_walked_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobgen.upload.walk.WEIGHED", 10)
    fill(tmp_path, *(f"data/{n // 5}/{n}" for n in range(100)))
    ignored = scan(tmp_path, Rules(("data",))).ignored[0]
    assert ignored.at_least
    assert ignored.files < 40


def test_empty_directories_and_execute_bits_are_kept(tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    fill(tmp_path, "run.sh", "a.py")
    (tmp_path / "run.sh").chmod(0o777)
    (tmp_path / "a.py").chmod(0o600)
    modes = {e.path: (e.kind, e.mode) for e in scan(tmp_path).entries}
    assert modes == {
        "outputs": ("dir", 0o755),
        "run.sh": ("file", 0o755),
        "a.py": ("file", 0o644),
    }


def test_the_order_and_the_digest_depend_on_the_content_alone(tmp_path: Path) -> None:
    names = ["b", "a", "B", "a.b", "a-b", "é", "z/1", "a0"]

    def made(name: str, order: list[str]) -> Manifest:
        root = fill(tmp_path / name, *order)
        (root / "link").symlink_to("b")
        os.utime(root / "b", (1, len(order)))
        return scan(root)

    one, two = made("one", names), made("two", names[::-1])
    assert [e.path for e in one.entries] == [e.path for e in two.entries]
    assert one.compute_digest() == two.compute_digest()
    (tmp_path / "two/a").write_text("y")
    assert scan(tmp_path / "two").compute_digest() != one.compute_digest()


def test_a_deep_tree_is_no_problem(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(300):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "x").write_text("x")
    assert len(files(tmp_path)) == 1


def test_a_pattern_that_would_be_tried_for_ever_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "a" * 200)
    with pytest.raises(Invalid, match="too many"):
        scan(tmp_path, Rules(ignore=("*a" * 24 + "b",)))
    assert files(tmp_path, "**/*.a", "*_*_*.bin") == ["a" * 200]


def test_a_name_with_a_c1_control_character_is_refused(tmp_path: Path) -> None:
    fill(tmp_path, "c1\u009b31m.txt")
    with pytest.raises(Invalid, match="control characters"):
        scan(tmp_path)
