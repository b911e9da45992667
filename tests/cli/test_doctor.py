"""The doctor's screen: for every width, in ASCII, and with nothing in it that a terminal obeys."""

from __future__ import annotations

import re

import pytest

from jobgen.app.doctor import Examination
from jobgen.cli.output import Ink
from jobgen.cli.screens import doctor
from jobgen.errors import Exit
from jobgen.survey.health import Finding, Verdict, fail, skip, succeed, warn
from tests.cli.conftest import Jobgen


def examination(*verdicts: Verdict, cluster: str = "hpc") -> Examination:
    found = [Finding(f"slurm.check{n}", "Slurm", "it is so", v) for n, v in enumerate(verdicts)]
    return Examination(cluster, tuple(found), 1.25, ("hpc", "lab"))


def test_each_fault_has_its_fix_below_and_the_next_command_is_last() -> None:
    verdicts = (succeed("fine", 0.012), warn("odd", "do this"), fail("bad", "do that", "J424"))
    text = doctor.screen(examination(*verdicts, skip("not asked")), Ink())
    assert text.splitlines() == [
        "Slurm",
        "  ✓ check0        fine (12ms)",
        "  ! check1        odd",
        "                  fix: do this",
        "  ✗ check2        bad",
        "                  fix: do that",
        "  ? check3        not asked",
        "",
        "1 check failed, 1 warning, 1 passed, 1 skipped (1.2s)",
        "More: jobgen explain J424",
    ]


def test_what_to_do_when_all_is_well() -> None:
    text = doctor.screen(examination(succeed("fine")), Ink())
    assert text.endswith("1 check passed (1.2s)\nNext: jobgen plan job.yaml -c hpc\n")
    alone = doctor.screen(examination(succeed("fine"), cluster=""), Ink())
    assert alone.endswith("Check a cluster: jobgen doctor -c hpc\nOther profiles of yours: lab\n")


def test_what_jobs_here_lack_comes_before_a_plan() -> None:
    lacking = Finding("local.torch", "Jobs here", "", warn("no torch", "activate its environment"))
    found = examination(succeed("fine"))
    text = doctor.screen(found._replace(findings=(*found.findings, lacking)), Ink())
    assert text.endswith("Next: activate its environment\n")


@pytest.mark.parametrize("status", ["found", "fix"])
def test_nothing_of_the_other_side_acts_on_the_terminal(status: str) -> None:
    evil = "\x1b]52;c;AAAA\x07\x9b2J\u202e\r\n  ✓ all is well"
    verdict = fail(evil, "x", "J424") if status == "found" else fail("x", evil, "J424")
    text = doctor.screen(examination(verdict), Ink())
    assert not set(text) & set("\x1b\x07\x9b\u202e\r")
    assert "\n  ✓" not in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit_where_their_words_do(width: int) -> None:
    words = "several words that have to be folded somewhere " * 5
    text = doctor.screen(examination(fail(words, words, "J424")), Ink(width=width))
    assert max(map(len, text.splitlines())) <= max(width, 62)


def test_data_and_exit_code() -> None:
    good, bad = examination(warn("a", "b")), examination(fail("a", "b", "J424"))
    assert (doctor.choose_exit(good), doctor.choose_exit(bad)) == (Exit.DONE, Exit.FAILED)
    data = doctor.data(bad)
    assert data["counts"] == {"ok": 0, "warning": 0, "failed": 1, "unknown": 0}
    (check,) = data["checks"]
    assert (check["id"], check["status"], check["code"]) == ("slurm.check0", "failed", "J424")


def test_a_profile_that_there_is_not(jobgen: Jobgen) -> None:
    said = jobgen("doctor", "-c", "a100x17")
    assert said.code == Exit.MISSING
    assert "a100x16" in said.err


def test_without_a_cluster_it_says_how_to_look_at_one(jobgen: Jobgen) -> None:
    said = jobgen("doctor", "--ascii")
    assert said.code == Exit.DONE
    assert said.out.isascii()
    assert said.out.splitlines()[-1].startswith("Check a cluster: jobgen doctor -c NAME")


def test_a_long_examination_fits_a_screen_and_keeps_every_fault() -> None:
    verdicts = [succeed("fine")] * 30 + [warn("odd", "do this"), fail("bad", "do that", "J424")]
    text = doctor.screen(examination(*verdicts), Ink(width=80))
    assert len(text.splitlines()) <= 25
    for words in ("check0, check1", "check29", "odd", "do that", "-v", "30 passed"):
        assert words in text
    assert len(doctor.screen(examination(*verdicts), Ink(), verbose=True).splitlines()) > 32


@pytest.mark.parametrize("words", [(), ("-c", "local")])
def test_the_default_screen_names_each_check_once(jobgen: Jobgen, words: tuple[str, ...]) -> None:
    said = jobgen("doctor", *words)
    assert len(said.out.splitlines()) <= 25
    names = re.findall(r"^  \S (\S+)", jobgen("doctor", *words, "-v").out, re.M)
    assert len(names) == len(set(names)) > 8
