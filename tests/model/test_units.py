"""Times and sizes: the forms that are read, and what is said of all others."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.model.units import LONGEST, Memory, Release, UnitError, Walltime, parse_size


@pytest.mark.parametrize(
    ("text", "seconds", "slurm"),
    [
        ("4h", 14400, "04:00:00"),
        ("90m", 5400, "01:30:00"),
        ("1d12h", 129600, "1-12:00:00"),
        ("04:00:00", 14400, "04:00:00"),
        ("1-12:00:00", 129600, "1-12:00:00"),
        ("100:00:00", 360000, "4-04:00:00"),
        ("30s", 30, "00:00:30"),
        ("7d", 604800, "7-00:00:00"),
    ],
)
def test_a_time_is_read_in_all_its_forms(text: str, seconds: int, slurm: str) -> None:
    time = Walltime.parse(text)
    assert (time.seconds, time.format_slurm()) == (seconds, slurm)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("240", "J131", ("240 minutes", "240h", "240m")),
        ("4:00", "J131", ("4 minutes", "4h", "4m")),
        ("1:30", "J131", ("1 minute.", "1h30m", "1m30s")),
        ("2 hours", "J132", ("2h",)),
        ("1.5h", "J132", ("1h30m",)),
        ("1 day and 2 hours", "J132", ("1d2h",)),
        ("4H", "J132", ("4h",)),
        ("04:90:00", "J132", ("59",)),
        ("1-25:00:00", "J132", ("23",)),
        ("", "J132", ("4h",)),
        ("-4h", "J132", ("4h",)),
        ("UNLIMITED", "J132", ("4h",)),
        ("٤h", "J132", ()),
        ("0h", "J133", ()),
        ("99999d", "J133", ("366",)),
    ],
)
def test_what_is_no_time_is_refused_with_what_to_write(
    text: str, code: str, words: tuple[str, ...]
) -> None:
    with pytest.raises(UnitError) as caught:
        Walltime.parse(text)
    assert caught.value.code == code
    assert all(word in caught.value.hint + caught.value.message for word in words)


@given(st.integers(1, LONGEST))
def test_every_time_survives_its_own_forms(seconds: int) -> None:
    time = Walltime(seconds)
    assert Walltime.parse(time.format_slurm()) == time
    assert Walltime.parse(time.format_short()) == time


@given(st.text(max_size=30))
def test_no_text_makes_a_time_or_a_size_fail_otherwise(text: str) -> None:
    for parse in (Walltime.parse, Memory.parse, parse_size):
        with contextlib.suppress(UnitError):
            parse(text)


@pytest.mark.parametrize(
    ("text", "slurm"),
    [
        ("64G", "64G"),
        ("0", "0"),
        ("all", "0"),
        ("1T", "1T"),
        ("1.5GiB", "1536M"),
        ("64GB", "64G"),
        ("224gb", "224G"),
        ("500MB", "500M"),
    ],
)
def test_memory_is_asked_for_in_slurms_units(text: str, slurm: str) -> None:
    assert Memory.parse(text).format_slurm() == slurm


@pytest.mark.parametrize("text", ["64", "0777", "64X", "G", "1e9", "-1G", "0G", "99999999T", "1 G"])
def test_a_size_without_a_clear_unit_is_refused(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        Memory.parse(text)
    assert caught.value.code == "J134"


@given(st.integers(1, 1024**5 - 1))
def test_memory_is_never_rounded_down(size: int) -> None:
    asked = Memory(size).format_slurm()
    assert parse_size(asked) - size in range(1024**2)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2.21.5", (2, 21, 5)),
        ("v2.21.5-1", (2, 21, 5)),
        ("2.21.0", (2, 21)),
        ("1.22.0amzn1.0", (1, 22)),
        ("2.4.0+cu121", (2, 4)),
        ("550.54.15", (550, 54, 15)),
        ("13.0", (13, 0)),
    ],
)
def test_a_release_is_read_as_its_maker_writes_it(text: str, numbers: tuple[int, ...]) -> None:
    assert Release.parse(text).numbers == numbers


def test_releases_compare_by_number_and_not_by_text() -> None:
    order = ["2.9.9", "2.10", "2.21", "2.21.5", "2.22.3", "10.0"]
    assert sorted(map(Release.parse, reversed(order))) == [Release.parse(text) for text in order]
    assert Release.parse("2.21") == Release.parse("2.21.0")


@pytest.mark.parametrize(
    "text", ["", "12", "22105", "2.x", "2.", ".5", "new", "2.21.5\n", "2,21", "2.1.2.3.4", "٢.٢١"]
)
def test_nonsense_is_no_release(text: str) -> None:
    with pytest.raises(UnitError) as caught:
        Release.parse(text)
    assert caught.value.code == "J183"
    assert caught.value.hint


def test_the_number_that_nccl_prints_is_spelled_out() -> None:
    with pytest.raises(UnitError) as caught:
        Release.parse("22105")
    assert caught.value.hint == "write 2.21.5"
