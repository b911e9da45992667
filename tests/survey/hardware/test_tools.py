"""The small rules of the tools: units, errors, CPU lists; and the real programs of this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.survey.hardware import gpus, ip, lscpu, nvidia_query, query, system_info, text, topo
from jobgen.survey.hardware.ports import state
from jobgen.survey.hardware.query import Reading
from tests.survey.facts import FACTS


@pytest.mark.parametrize(
    ("cell", "reading"),
    [
        ("81559 MiB", Reading("81559 MiB", 81559, "MiB")),
        ("67.74 W", Reading("67.74 W", 67.74, "W")),
        ("-5", Reading("-5", -5)),
        ("0x0000000000000040", Reading("0x0000000000000040", 64)),
        ("Enabled", Reading("Enabled")),
        ("[N/A]", Reading()),
        ("N/A", Reading()),
        ("[Not Supported]", Reading()),
        ("", Reading()),
        ("ERR!", Reading(error="ERR!")),
        ("[Unknown Error]", Reading(error="Unknown Error")),
        ("[GPU requires reset]", Reading(error="GPU requires reset")),
        ("550.90.07", Reading("550.90.07")),
        ("NVIDIA H100 80GB HBM3", Reading("NVIDIA H100 80GB HBM3")),
        ("9" * 400, Reading("9" * 400)),
        ("٣", Reading("٣")),
    ],
)
def test_a_cell_is_a_number_a_word_nothing_or_an_error(cell: str, reading: Reading) -> None:
    assert query.reading(cell) == reading


def test_rows_without_a_heading_take_the_names_that_were_asked_for() -> None:
    rows = query.parse(
        "0, 35, 0 %\n1, ERR!, 100 %\n", ("index", "temperature.gpu", "utilization.gpu")
    )
    assert [row["temperature.gpu"].number for row in rows] == [35, None]
    assert rows[1]["temperature.gpu"].error == "ERR!"
    assert rows[1]["utilization.gpu"] == Reading("100 %", 100, "%")


def test_units_of_the_heading_are_kept_with_nounits() -> None:
    (row,) = query.parse("index, memory.used [MiB]\n0, 575\n")
    assert row["memory.used"] == Reading("575", 575, "MiB")


def test_a_row_of_another_length_is_no_row() -> None:
    assert query.parse("a, b\nNo devices were found\n1, 2, 3\n") == ()


@pytest.mark.parametrize("words", ["Active", "PORT_ACTIVE (4)", "4: ACTIVE", "active"])
def test_a_port_that_is_active_is_so_in_every_spelling(words: str) -> None:
    assert state(words) == "active"


@pytest.mark.parametrize("words", ["Initializing", "PORT_INIT (2)", "2: INIT"])
def test_a_port_that_waits_for_its_subnet_manager_is_so_in_every_spelling(words: str) -> None:
    assert state(words) == "init"


def test_a_gpu_that_fell_off_is_named() -> None:
    line = "Unable to determine the device handle for GPU 0000:9B:00.0: GPU is lost.  Reboot"
    assert gpus.lost(f"{line}\n{line}") == ("0000:9B:00.0",)
    assert gpus.parse(line) == ()


def test_a_power_brake_is_a_fault_and_an_idle_clock_is_none() -> None:
    braked = nvidia_query.parse((FACTS / "hardware" / "q-h100-brake.txt").read_text()).gpus[0]
    assert braked.throttled == ("HW Slowdown", "HW Power Brake Slowdown")
    idle = nvidia_query.parse((FACTS / "hardware" / "q-titan-v.txt").read_text()).gpus[0]
    assert (idle.reasons, idle.throttled) == (("Idle",), ())


OLD = """\
GPU 0000:3B:00.0
    Ecc Mode
        Current                     : Enabled
    ECC Errors
        Volatile
            Single Bit
                Device Memory       : 2
                Register File       : 1
                Total               : 3
            Double Bit
                Device Memory       : 5
                Total               : 5
    Clocks Throttle Reasons
        SW Thermal Slowdown         : Active
    Power Readings
        Power Draw                  : 61.02 W
        Power Limit                 : 250.00 W
"""


def test_the_layout_of_older_drivers_is_known() -> None:
    """Its names: the manual of nvidia-smi 418, sections ECC Errors and Power Readings."""
    (gpu,) = nvidia_query.parse(OLD).gpus
    assert (gpu.ecc, gpu.corrected, gpu.uncorrected, gpu.lifetime) == ("Enabled", 3, 5, None)
    assert (gpu.throttled, gpu.power, gpu.power_limit) == (("SW Thermal Slowdown",), 61.02, 250.0)


@pytest.mark.parametrize(
    ("words", "count"),
    [("0-3", 4), ("0,2,4", 3), ("0-62:2", 32), ("0-47,96-143", 96), ("7", 1), ("", 0), ("x", 0)],
)
def test_a_list_of_cpus_is_counted(words: str, count: int) -> None:
    assert text.size(words) == count


@given(st.sets(st.integers(0, 500), min_size=1))
def test_any_list_of_cpus_is_read_back(cpus: set[int]) -> None:
    found = text.ranges(",".join(map(str, sorted(cpus))))
    assert {cpu for part in found for cpu in part} == cpus


def test_huge_ranges_cost_nothing() -> None:
    assert text.size("0-999999999999999999") == 10**18
    assert text.ranges("0-" + "9" * 5000) == ()


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
def test_all_ways_to_ask_ip_agree() -> None:
    full = ip.parse(output("ip", "-j", "addr"))
    assert full, "this machine has at least a loopback"
    assert ip.parse(output("ip", "addr")) == full
    named = {i.name: i.addresses for i in full}
    assert {i.name: i.addresses for i in ip.parse(output("ip", "-br", "addr"))} == named
    told = {i.name: i.addresses for i in ip.parse(output("ip", "-o", "addr"))}
    assert told == {name: addresses for name, addresses in named.items() if addresses}
    states = {i.name: (i.state, i.flags) for i in full}
    for words in (("-o", "link"), ("-br", "link")):
        assert {i.name: (i.state, i.flags) for i in ip.parse(output("ip", *words))} == states


@pytest.mark.skipif(not shutil.which("lscpu"), reason="no lscpu on this machine")
def test_both_ways_to_ask_lscpu_agree() -> None:
    found = lscpu.parse(output("lscpu"))
    assert found
    assert found.cpus > 0
    assert lscpu.parse(output("lscpu", "-J")) == found


def test_the_memory_and_the_disks_of_this_machine_are_read() -> None:
    assert (system_info.memory(Path("/proc/meminfo").read_text()) or 0) > 2**20
    assert "/" in {disk.mount for disk in system_info.disks(output("df", "-Pk"))}


def test_versions_are_found_where_tools_print_them() -> None:
    nvcc = (
        "Cuda compilation tools, release 12.9, V12.9.86\nBuild cuda_12.9.r12.9/compiler.36037853_0"
    )
    assert system_info.cuda(nvcc) == "12.9"
    proc = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024"
    )
    assert system_info.driver(proc) == "535.183.01"
    assert system_info.driver("570.172.08\n") == "570.172.08"
    assert system_info.driver("command not found") == ""


def test_modules_are_named_as_they_are_loaded() -> None:
    avail = "/apps/modulefiles/Core:\ncuda/\ncuda/12.2(default)\ncuda/12.8 (D)\nanaconda3\n"
    assert system_info.modules(avail) == ("cuda/12.2", "cuda/12.8", "anaconda3")
    spider = (
        "-----\nThe following is a list of the modules currently available:\n-----\n"
        "  cuda: cuda/11.8.0, cuda/12.1.1, ...\n    NVIDIA's toolkit: compilers, libraries\n"
        "To learn more about a package execute:\n"
    )
    assert system_info.modules(spider) == ("cuda/11.8.0", "cuda/12.1.1")


def test_control_characters_never_come_through() -> None:
    spoilt = "\x1b]0;owned\x07" + (FACTS / "hardware" / "topo-one-gpu-vm.txt").read_text()
    matrix = topo.parse(spoilt.replace("mlx5_0", "mlx5\u202e_0\x1b[31m"))
    assert all(name.isascii() and name.isprintable() for name in matrix.devices.values())
