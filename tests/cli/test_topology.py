"""``jobgen explain --topo``: a table from a file or a pipe, and what is none."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Jobgen

FACTS = Path(__file__).parents[1] / "facts" / "hardware"


def test_a_saved_table_is_explained(jobgen: Jobgen) -> None:
    said = jobgen("explain", "--topo", str(FACTS / "topo-h100-ib.txt"))
    assert said.code == 0
    assert "8 GPUs on an NVSwitch" in said.out
    assert "GPU7  mlx5_ib7     PIX   1     56-111,168-223" in said.out


def test_a_piped_table_is_explained_as_data(
    jobgen: Jobgen, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (FACTS / "topo-pairs.txt").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text + b"\xff\xfe")))
    said = jobgen("explain", "--topo", "-", "--json")
    data = json.loads(said.out)["data"]
    assert (said.code, data["intra"]) == (0, "nvlink")
    assert data["islands"] == [["GPU0", "GPU1"], ["GPU2", "GPU3"]]


def test_ports_in_the_same_file_choose_the_cards(jobgen: Jobgen, tmp_path: Path) -> None:
    names = ("topo-mp-h100.txt", "ibv_devinfo-h100-ib.txt")
    path = tmp_path / "node.txt"
    path.write_text("".join((FACTS / name).read_text() for name in names))
    said = jobgen("explain", "--topo", str(path), "--json")
    wanted = "mlx5_0,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_9,mlx5_10,mlx5_11"
    assert json.loads(said.out)["data"]["ib_hca"] == wanted


def test_what_is_no_table_is_said_with_the_command_that_makes_one(
    jobgen: Jobgen, tmp_path: Path
) -> None:
    path = tmp_path / "no.txt"
    path.write_text("nvidia-smi: command not found\n")
    said = jobgen("explain", "--topo", str(path))
    assert said.code == 3
    assert "nvidia-smi topo -m > topo.txt" in said.err
    assert jobgen("explain", "--topo", str(tmp_path / "none")).code == 7
    assert jobgen("explain", "J131", "--topo", str(path)).code == 2
