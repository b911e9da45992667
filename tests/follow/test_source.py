"""File names say whose output a file holds."""

import pytest

from jobgen.follow.source import LogSource, parse_source


def test_a_rank_is_read_from_its_file_name() -> None:
    found = parse_source("logs/3/2/gpu-01.cluster.example.17.err")
    assert found == LogSource("gpu-01.cluster.example", 17, "err", task="3", restart=2)


def test_the_jobs_own_log_has_no_rank() -> None:
    assert parse_source("logs/job-812345.out") == LogSource("", None, "job")
    assert parse_source("logs/job-812345_7.out") == LogSource("", None, "job", task="7")


@pytest.mark.parametrize(
    "name",
    [
        "plan.json",
        "n01.out",
        "n01.x.out",
        "n 01.3.out",
        "n01.3.log",
        "job-.out",
        "",
        "/",
        "n\n.1.out",
    ],
)
def test_other_files_are_no_source(name: str) -> None:
    assert parse_source(f"logs/0/0/{name}") is None


def test_sources_are_ordered_as_people_count() -> None:
    names = ["n02.10.out", "n01.2.err", "n01.2.out", "n01.0.out"]
    found = sorted(
        (s for n in names if (s := parse_source(f"logs/0/0/{n}"))), key=lambda s: s.order
    )
    assert [(s.rank, s.stream) for s in found] == [(0, "out"), (2, "out"), (2, "err"), (10, "out")]
