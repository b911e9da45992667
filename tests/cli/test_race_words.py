"""The words of ``--race``."""

from __future__ import annotations

import pytest

from jobgen.cli.race_words import write_race
from jobgen.errors import Usage


@pytest.mark.parametrize("word", ["partition", "=a", "qos=", "qos=a,b,partition=c", "qos=a,=b"])
def test_what_names_no_entry_is_refused(word: str) -> None:
    with pytest.raises(Usage, match="--race"):
        write_race([word])


def test_the_values_of_one_option_are_an_entry_each() -> None:
    assert write_race(["qos=a,b"]) == '[{"qos": "a"}, {"qos": "b"}]'
