"""The small rules of the tools: cells, states, modules; and the real programs of this machine."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from jobgen.survey.hardware import ip, lscpu, query, system_info, topo
from jobgen.survey.hardware.ports import parse_state
from jobgen.survey.hardware.query import Reading
from tests.survey.facts import FACTS


@pytest.mark.parametrize(
    ("cell", "reading"),
    [
        ("81559 MiB", Reading("81559 MiB", 81559)),
        ("67.74 W", Reading("67.74 W", 67.74)),
        ("-5", Reading("-5", -5)),
        ("Enabled", Reading("Enabled")),
        ("[N/A]", Reading()),
        ("N/A", Reading()),
        ("[Not Supported]", Reading()),
        ("", Reading()),
        ("ERR!", Reading()),
        ("[Unknown Error]", Reading()),
        ("[GPU requires reset]", Reading()),
        ("550.90.07", Reading("550.90.07")),
        ("NVIDIA H100 80GB HBM3", Reading("NVIDIA H100 80GB HBM3")),
        ("9" * 400, Reading("9" * 400)),
        ("٣", Reading("٣")),
    ],
)
def test_a_cell_is_a_number_a_word_or_nothing(cell: str, reading: Reading) -> None:
    assert query.parse_reading(cell) == reading


def test_rows_take_the_names_that_were_asked_for() -> None:
    rows = query.parse(
        "0, 35, 0 %\n1, ERR!, 100 %\n", ("index", "temperature.gpu", "utilization.gpu")
    )
    assert [row["temperature.gpu"].number for row in rows] == [35, None]
    assert rows[1]["utilization.gpu"] == Reading("100 %", 100)


def test_a_row_of_another_length_is_no_row() -> None:
    assert query.parse("No devices were found\n1, 2, 3\n", ("a", "b")) == ()


@pytest.mark.parametrize("words", ["Active", "PORT_ACTIVE (4)", "4: ACTIVE", "active"])
def test_a_port_that_is_active_is_so_in_every_spelling(words: str) -> None:
    assert parse_state(words) == "active"


@pytest.mark.parametrize("words", ["Initializing", "PORT_INIT (2)", "2: INIT"])
def test_a_port_that_waits_for_its_subnet_manager_is_so_in_every_spelling(words: str) -> None:
    assert parse_state(words) == "init"


def test_cores_are_counted_by_socket_and_by_kind() -> None:
    def cores(name: str) -> int:
        found = lscpu.parse((FACTS / "hardware" / f"lscpu-{name}.txt").read_text())
        assert found
        return found.cores

    names = ("epyc-7451", "xeon-8268", "xeon-x7550", "arm-biglittle", "power9")
    assert [cores(name) for name in names] == [48, 96, 32, 8, 32]


def output(*words: str) -> str:
    return subprocess.run(
        words,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
    ).stdout


@pytest.mark.skipif(not shutil.which("ip"), reason="no ip on this machine")
def test_both_ways_to_ask_ip_agree() -> None:
    full = ip.parse(output("ip", "addr"))
    assert full, "this machine has at least a loopback"
    assert ip.parse(output("ip", "-o", "addr")) == tuple(i for i in full if i.addresses)


@pytest.mark.skipif(not shutil.which("lscpu"), reason="no lscpu on this machine")
def test_the_processors_of_this_machine_are_read() -> None:
    found = lscpu.parse(output("lscpu"))
    assert found
    assert found.cpus > 0


def test_the_driver_is_found_where_tools_print_it() -> None:
    proc = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024"
    )
    assert system_info.parse_driver(proc) == "535.183.01"
    assert system_info.parse_driver("570.172.08\n") == "570.172.08"
    assert system_info.parse_driver("command not found") == ""


def test_modules_are_named_as_they_are_loaded() -> None:
    avail = "/apps/modulefiles/Core:\ncuda/\ncuda/12.2(default)\ncuda/12.8 (D)\nanaconda3\n"
    assert system_info.parse_modules(avail) == ("cuda/12.2", "cuda/12.8", "anaconda3")
    spider = (
        "-----\nThe following is a list of the modules currently available:\n-----\n"
        "  cuda: cuda/11.8.0, cuda/12.1.1, ...\n    NVIDIA's toolkit: compilers, libraries\n"
        "To learn more about a package execute:\n"
    )
    assert system_info.parse_modules(spider) == ("cuda/11.8.0", "cuda/12.1.1")


def test_control_characters_never_come_through() -> None:
    spoilt = "\x1b]0;owned\x07" + (FACTS / "hardware" / "topo-one-gpu-vm.txt").read_text()
    matrix = topo.parse(spoilt.replace("mlx5_0", "mlx5\u202e_0\x1b[31m"))
    assert all(name.isascii() and name.isprintable() for name in matrix.devices.values())
