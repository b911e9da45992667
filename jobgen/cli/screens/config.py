"""The answer of ``config``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobgen.cli.layout import align
from jobgen.cli.output import Ink, defuse

if TYPE_CHECKING:
    from jobgen.app.personal_settings import PersonalSetting


def draw_settings(settings: Sequence[PersonalSetting], ink: Ink, *, origins: bool) -> str:
    """A line for each value; with ``origins`` also where it comes from."""
    rows = [_draw_row(setting, origins=origins) for setting in settings]
    text = align(rows)
    more = "" if origins else ink("faint", "where from: jobgen config --show-origin") + "\n"
    return text + more if settings else "none set\n"


def _draw_row(setting: PersonalSetting, *, origins: bool) -> tuple[str, ...]:
    cells = (setting.key, defuse(setting.value) or "(not set)")
    return (*cells, defuse(setting.place) or setting.origin) if origins else cells
