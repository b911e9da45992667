"""What Slurm's programs read: host lists, times, options, scripts."""

from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.payload.localslurm import hostlist, options, script, times
from jobgen.payload.localslurm.errors import CommandError


@given(st.sets(st.integers(1, 60), min_size=1))
def test_a_host_list_comes_back_as_it_was_written(numbers: set[int]) -> None:
    names = [f"local{n}" for n in sorted(numbers)]
    assert hostlist.expand(hostlist.compress(sorted(numbers))) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("r[1-2]n[3,5]", ["r1n3", "r1n5", "r2n3", "r2n5"]),
        ("a[1-2],b", ["a1", "a2", "b"]),
    ],
)
def test_host_lists_are_expanded_as_slurm_does(text: str, names: list[str]) -> None:
    assert hostlist.expand(text) == names


@pytest.mark.parametrize("text", ["n[1-", "n]", "n[a-b]", "n[1-999999999]", "n[]"])
def test_a_broken_host_list_is_no_host_list(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        hostlist.expand(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("1:30", 90),
        ("04:00:00", 14400),
        ("1-12", 129600),
        ("1-12:30", 131400),
        ("1-12:00:01", 129601),
        ("UNLIMITED", None),
        ("0", None),
    ],
)
def test_time_limits_are_read_by_slurms_forms(text: str, seconds: int | None) -> None:
    assert times.limit(text) == seconds


@pytest.mark.parametrize("text", ["4h", "1:2:3:4", "-5", "1-"])
def test_what_is_no_time_limit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        times.limit(text)


@given(st.integers(0, 10**7))
def test_a_duration_that_was_written_can_be_read_again(seconds: int) -> None:
    assert times.limit(times.full(seconds)) == (seconds or None)


def test_options_are_read_in_every_form_and_the_last_one_wins() -> None:
    words = ["-N2", "--time", "5", "--ntasks=4", "-n", "8", "--exclusive", "-vQ", "job.sh", "-N9"]
    values, rest = options.parse("sbatch", options.SBATCH, words)
    assert values == {
        "nodes": "2", "time": "5", "ntasks": "8", "exclusive": "", "verbose": "", "quiet": "",
    }  # fmt: skip
    assert rest == ["job.sh", "-N9"]


@pytest.mark.parametrize(
    ("program", "words", "text", "code"),
    [
        ("sbatch", ["--container-image=x"], "unrecognized option '--container-image=x'", 255),
        ("srun", ["-Z"], "invalid option -- 'Z'", 255),
        ("sbatch", ["--time"], "option '--time' requires an argument", 255),
        ("sbatch", ["--parsable=3"], "option '--parsable' doesn't allow an argument", 255),
        ("squeue", ["--foo"], "unrecognized option '--foo'", 1),
    ],
)
def test_a_wrong_option_is_refused_in_slurms_words(
    program: str, words: list[str], text: str, code: int
) -> None:
    tables = {"sbatch": options.SBATCH, "srun": options.SRUN, "squeue": options.SQUEUE}
    with pytest.raises(CommandError) as refused:
        options.parse(program, tables[program], words)
    assert refused.value.lines[0] == f"{program}: {text}"
    assert refused.value.code == code


def test_directives_end_at_the_first_command() -> None:
    text = (
        "#!/bin/bash\n# a comment\n#SBATCH --nodes=2 # two\n\n#SBATCH--time=7\n"
        " #SBATCH --ntasks=9\n##SBATCH --ntasks=9\n#SBATCH --comment='a # b'\n"
        "true\n#SBATCH --ntasks=9\n"
    )
    assert script.directives(text, "job.sh") == ["--nodes=2", "--time=7", "--comment=a # b"]


def test_a_quote_without_its_twin_names_the_line() -> None:
    with pytest.raises(CommandError) as refused:
        script.directives('#!/bin/sh\n#SBATCH --job-name="a\n', "um.sh")
    assert refused.value.lines == (
        'sbatch: fatal: um.sh: line 2: Unmatched `"` in [--job-name="a]',
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "Batch script is empty!"),
        (b"true\n", "This does not look like a batch script."),
        (b"#!/bin/sh\r\ntrue\r\n", "DOS line breaks"),
        (b"#!/bin/sh\n\0", "NULL character"),
    ],
)
def test_what_sbatch_takes_for_no_script_is_refused(text: bytes, words: str) -> None:
    with pytest.raises(CommandError, match=re.escape(words)):
        script.check(text)


def test_every_option_of_the_catalogue_is_known() -> None:
    # the manual's list is the catalogue's; 22.05's own client knows what it must
    known = options.table(options.SBATCH)
    for name in ("partition", "account", "qos", "mem", "constraint", "mail-type", "signal"):
        assert known[f"--{name}"].kind == "="


def test_the_stand_ins_need_nothing_but_the_standard_library() -> None:
    from jobgen.payload import localslurm

    done = subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-S", localslurm.FOLDER, "--state", "x", "sbatch", "-V"],
        capture_output=True,
        text=True,
    )
    assert "jobgen local" in done.stdout, done.stderr
