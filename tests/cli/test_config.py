"""Every setting is shown with its value and where it comes from; nothing secret is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Jobgen, home_of

TOKEN = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZabcdefgh"


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing is set."""
    for name in ("CLUSTER", "STATE_HOME", "CONFIG_HOME", "SSH_CONFIG"):
        monkeypatch.delenv(f"JOBGEN_{name}", raising=False)
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def read(jobgen: Jobgen, *words: str) -> dict[str, list[tuple[str, str, str]]]:
    """Key → (value, origin, place) of each of its values."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for row in json.loads(jobgen("config", *words, "--json").out)["data"]:
        found.setdefault(row["key"], []).append((row["value"], row["origin"], row["place"]))
    return found


def test_without_any_setting_all_are_defaults(jobgen: Jobgen, tmp_path: Path) -> None:
    found = read(jobgen)
    home = home_of(tmp_path)
    assert found["cluster"] == [("", "default", "")]
    assert found["config"] == [(str(home / ".config/jobgen"), "default", "")]
    assert found["ssh_config"] == [(str(home / ".ssh/config"), "default", "")]
    assert {origin for rows in found.values() for _, origin, _ in rows} == {"default"}


def test_a_variable_is_named(jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JOBGEN_CLUSTER", "a100x16")
    monkeypatch.setenv("JOBGEN_STATE_HOME", "/state")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/etc/mine")
    monkeypatch.setenv("NO_COLOR", "1")
    found = read(jobgen)
    assert found["cluster"] == [("a100x16", "variable", "JOBGEN_CLUSTER")]
    assert found["state"] == [("/state", "variable", "JOBGEN_STATE_HOME")]
    assert found["config"] == [("/etc/mine/jobgen", "variable", "XDG_CONFIG_HOME")]
    assert found["color"] == [("never", "variable", "NO_COLOR")]
    text = jobgen("config", "--show-origin", "cluster").out
    assert text.split() == ["cluster", "a100x16", "JOBGEN_CLUSTER"]


def test_a_relative_xdg_folder_is_not_used(jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert read(jobgen, "state")["state"][0][1:] == ("default", "")


def test_permissions_have_their_line_and_secrets_are_masked(
    jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    rows = [json.dumps(["login", "ann@hpc:/scratch"]), "{damaged", json.dumps(["secret", TOKEN])]
    (state / "permissions.jsonl").write_text("\n".join(rows))
    monkeypatch.setenv("JOBGEN_STATE_HOME", str(state))
    first, second = read(jobgen, "permissions")["permissions"]
    assert first == ("login ann@hpc:/scratch", "file", "state/permissions.jsonl:1")
    assert second[2] == "state/permissions.jsonl:3"
    monkeypatch.setenv("JOBGEN_CLUSTER", TOKEN)
    for words in (("config",), ("config", "--show-origin"), ("config", "--json")):
        assert TOKEN not in jobgen(*words).out


def test_profiles_are_listed_in_the_order_of_their_search(jobgen: Jobgen, tmp_path: Path) -> None:
    (tmp_path / "clusters").mkdir()
    own = home_of(tmp_path) / ".config/jobgen/clusters"
    own.mkdir(parents=True)
    values = [value for value, _, _ in read(jobgen, "profiles")["profiles"]]
    assert values[:2] == [str(own), "clusters"]
    assert values[2].endswith("clusters (shipped)")


def test_an_unknown_setting_is_answered_with_the_nearest(jobgen: Jobgen) -> None:
    said = jobgen("config", "colour")
    assert said.code == 2
    assert "color" in said.err
