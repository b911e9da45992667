"""The way out: what is said of a cluster that cannot be reached, and files written in one step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jobgen.app.world import UNKNOWN_HOST, World, replace_file
from jobgen.catalog import SHIPPED
from jobgen.errors import Diagnostic, Unreachable
from jobgen.load import load_cluster
from jobgen.model.record import Login


def find_hint(world: World, host: str, code: str = UNKNOWN_HOST) -> str:
    """The hint on a host for which ssh fails with this code."""

    def fail(*_: Any) -> Any:
        raise Unreachable(Diagnostic(code, f"{host}: no", hint="check the name"))

    with pytest.raises(Unreachable) as raised:
        replace(world, dial=fail).connect(Login("paramiko", host))
    return raised.value.problems[0].hint


def test_the_host_of_a_shipped_profile_is_an_example(world: World) -> None:
    hint = "a100x16 is an example; add your cluster: jobgen cluster add NAME --from HOST"
    assert find_hint(world, "a100x16") == hint
    assert find_hint(world, "a100x16", "J403") == "check the name"
    assert find_hint(world, "login.example.org") == "check the name"
    (world.config / "clusters" / "a100x16.yaml").write_text("name: a100x16\n")
    assert find_hint(world, "a100x16") == "check the name"


def test_every_shipped_profile_has_its_name_as_its_host(world: World) -> None:
    """But LUMI's, which is no example: there is one such machine."""
    for file in world.open_catalog().list_clusters():
        site = load_cluster(file.text, file.label, parent=file.parent).value
        if file.origin == SHIPPED and site.ssh is not None and file.name != "lumi-g":
            assert site.ssh.host == file.name


def test_a_file_is_replaced_whole_and_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    file, folder = tmp_path / "x.json", tmp_path / "folder"
    replace_file(file, "old")
    replace_file(file, "new")
    folder.mkdir()
    with pytest.raises(OSError, match="directory"):
        replace_file(folder, "text")
    assert file.read_text() == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"x.json", "folder"}
