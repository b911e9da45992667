"""Public job scripts stand as job files, and what is lost of them is known."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobgen.cli.main import run
from tests.corpus.__main__ import PAGE, compare_original, write_page
from tests.corpus.compare import Rendered, compare, count_mebibytes, count_minutes, normalize
from tests.corpus.originals import (
    CONFIGS,
    HERE,
    Original,
    find_missing_key,
    is_known,
    load_original,
    read_originals,
    render_original,
)
from tests.products import one_of_each
from tests.shellcheck import complaints, shellcheck

ORIGINALS = read_originals()
OF_THE_USER = "SC2086,SC2154,SC2155"
"""Words that the scripts' authors did not quote, variables of their sites, and what they export."""
LOSSES = {"090": ["any: hang_monitor"]}
"""What the job files do not express."""
PLAIN = next(original for original in ORIGINALS.values() if not original.needs)


def list_parameters() -> list[object]:
    """One case a script; skipped, with the key, where jobgen does not know all it needs."""
    return [
        pytest.param(original, id=original.file, marks=_skip(find_missing_key(original)))
        for original in ORIGINALS.values()
    ]


def _skip(missing: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.skip(reason=f"needs {missing}")] if missing else []


every_script = pytest.mark.parametrize("original", list_parameters())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the profiles, in which a job file stands beside its program."""
    shutil.copytree(HERE / "clusters", tmp_path / "clusters")
    return tmp_path


@every_script
def test_lint_finds_no_error(
    original: Original,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (HERE / original.file).read_text(encoding="utf-8")
    (folder / "job.yaml").write_text(text, encoding="utf-8")
    for name in original.files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(CONFIGS.get(Path(name).suffix, b"pass\n"))
    monkeypatch.chdir(folder)
    sets = [word for value in original.sets for word in ("--set", value)]
    code = run(["lint", "job.yaml", *sets])
    assert code == 0, capsys.readouterr().err


@every_script
def test_no_more_than_is_known_is_lost(original: Original) -> None:
    compared = compare_original(original)
    lost = sorted(c.fact for c in compared if c.verdict == "lost")
    assert lost == LOSSES.get(original.id, [])
    used = {c.fact for c in compared if c.verdict == "differs"}
    assert set(original.differs) <= used, "a reason for what does not differ"


def list_kinds() -> list[object]:
    """Every script; those of a launcher of which there is one already are exhaustive."""
    known = [original for original in ORIGINALS.values() if not find_missing_key(original)]
    first = {original.launcher: original.id for original in reversed(known)}
    return one_of_each([original.id for original in known], kept=first.values())


def list_scripts(number: str) -> list[bytes]:
    """All that bash runs in a job and in its variants."""
    variants = ("", *load_original(ORIGINALS[number]).value.variants)
    files = [file for variant in variants for file in render_original(number, variant).files]
    return [file.content for file in files if file.path.endswith((".sh", ".sbatch"))]


@every_script
def test_the_scripts_are_bash(original: Original) -> None:
    for script in list_scripts(original.id):
        assert complaints(script, "bash", "-n") == ""


@pytest.mark.parametrize("number", list_kinds())
def test_the_scripts_are_clean(number: str) -> None:
    for script in list_scripts(number):
        words = (shellcheck(), "--shell=bash", f"--exclude={OF_THE_USER}", "-")
        assert complaints(script, *words) == ""


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == write_page(), "python -m tests.corpus --write"


def test_each_job_file_names_its_source() -> None:
    for original in ORIGINALS.values():
        first = (HERE / original.file).read_text(encoding="utf-8").partition("\n")[0]
        assert first == f"# source: {original.source}"


@pytest.mark.parametrize(
    ("old", "new", "fact"),
    [
        ("#SBATCH --nodes=2 ", "#SBATCH --nodes=3 ", "--nodes=2"),
        ("--gres=gpu:8", "--gres=gpu:4", "--gres=gpu:8"),
        ("--time=00:10:00", "--time=01:00:00", "--time=0:10:00"),
        ("--cpus-per-task=10", "--cpus-per-task=9", "--cpus-per-task=10"),
        ("--partition=xyz-cluster", "--partition=other", "--partition=xyz-cluster"),
    ],
)
def test_a_changed_option_is_lost(old: str, new: str, fact: str) -> None:
    original = ORIGINALS["006"]
    files = {f.path: f.content.decode() for f in render_original("006").files}
    assert old in files["job.sbatch"]
    files["job.sbatch"] = files["job.sbatch"].replace(old, new)
    compared = compare(original, Rendered(files, {"srun"}))
    assert [c.fact for c in compared if c.verdict == "lost"] == [fact]


def test_a_missing_argument_step_variable_and_launcher_are_lost() -> None:
    original = PLAIN._replace(
        exports={"MISSING": "1"}, arguments=["--no-such 3"], steps=[("before", "absent")]
    )
    files = {f.path: f.content.decode() for f in render_original(original.id).files}
    lost = {c.fact for c in compare(original, Rendered(files, set())) if c.verdict == "lost"}
    named = {"export MISSING", "--no-such 3", "before: absent", f"launcher {original.launcher}"}
    assert named <= lost


def test_times_and_memory_are_compared_as_slurm_reads_them() -> None:
    assert count_minutes("1-12:00:00") == count_minutes("36:00:00") == count_minutes("2160")
    assert count_minutes("30:30") == 30.5
    assert count_mebibytes("1T") == count_mebibytes("1024G") == count_mebibytes("1048576")


def test_quotes_and_braces_make_no_difference() -> None:
    assert normalize("--lr=\"${LR}\" \\\n --x 'a'") == "--lr $LR --x a"


def test_a_key_that_is_needed_is_looked_up() -> None:
    assert is_known("launcher.type")
    assert is_known("launcher=torchrun")
    assert not is_known("no_such_key")
    assert not is_known("launcher=no-such-launcher")
