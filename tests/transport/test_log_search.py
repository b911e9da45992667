"""Lines of large logs are found where they lie, with their numbers and what follows them."""

from __future__ import annotations

from pathlib import Path

from jobgen.transport.log_search import search_logs
from jobgen.transport.this_machine import LocalTransport

WORDS = ("Traceback (most", "Watchdog caught")


def test_matches_come_with_their_numbers_and_the_lines_behind_them(tmp_path: Path) -> None:
    log = tmp_path / "train log.out"
    lines = [f"step {n}" for n in range(1, 100)]
    lines[40] = "Traceback (most recent call last):"
    lines[41] = "KeyError: 'labels'"
    log.write_text("\n".join(lines) + "\n")
    with LocalTransport() as transport:
        (found,) = search_logs(transport, [str(log)], WORDS, most=4096, behind=2)
    assert (found.first, found.total) == (41, 99)
    assert found.text == "Traceback (most recent call last):\nKeyError: 'labels'\nstep 43\n"


def test_of_too_many_matches_the_first_and_the_last_come(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"Watchdog caught {n}\n" for n in range(10_000)))
    with LocalTransport() as transport:
        found = search_logs(transport, [str(log)], WORDS, most=2000, behind=0)
    texts = "".join(lines.text for lines in found)
    assert len(texts) < 2000
    assert "Watchdog caught 0\n" in texts
    assert "Watchdog caught 9999\n" in texts


def test_names_and_words_are_data_and_never_run(tmp_path: Path) -> None:
    log = tmp_path / "$(touch owned); 'x"
    log.write_text("Traceback (most recent call last):\n")
    with LocalTransport() as transport:
        found = search_logs(transport, [str(log), str(tmp_path / "gone")], WORDS, most=999)
    assert [lines.path for lines in found] == [str(log)]
    assert not (tmp_path / "owned").exists()


def test_a_log_without_a_match_and_one_that_is_missing_give_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("all is well\n")
    with LocalTransport() as transport:
        assert search_logs(transport, [str(tmp_path / "log")], WORDS, most=999) == []
        assert search_logs(transport, [str(tmp_path / "gone")], WORDS, most=999) == []
