"""monitor.sh as a node runs it: a tool that answers, lies, hangs and dies, and a node of files."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.waiting import HANG, until

SCRIPT = Path(__file__).parents[2] / "jobgen" / "payload" / "monitor.sh"
GOOD = "0, 97, 70123, 81559, 65, 612.34, 700.00, 1755, 1980, 2619, 0x0000000000000004"
UNKNOWN = 'Field "clocks_event_reasons.active" is not a valid field to query.'

Rows = list[dict[str, str]]


class Node:
    """A node of files: its /proc and /sys, the tools on its PATH, and what was written of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.out.mkdir()
        (folder / "bin").mkdir()
        self.file("proc/loadavg", "3.25 2.00 1.00 2/300 4242\n")
        self.file("proc/meminfo", "MemTotal: 4194304 kB\nMemFree: 1 kB\nMemAvailable: 1048576 kB\n")
        self.file("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")

    def file(self, path: str, text: str) -> Path:
        """A file under the node's root."""
        place = self.folder / "root" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def tool(self, body: str) -> None:
        """What nvidia-smi does here, as bash."""
        path = self.folder / "bin" / "nvidia-smi"
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    @contextmanager
    def watched(
        self, every: int = 1, most: int = 1 << 21, script: Path = SCRIPT, **env: str
    ) -> Iterator[subprocess.Popen[str]]:
        """The monitor while it runs; it is told to end at the end, and must do so."""
        words = ["bash", str(script), str(every), str(self.out), str(most)]
        whole = {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "SLURMD_NODENAME": "n1"}
        with (
            (self.folder / "said").open("w") as said,
            subprocess.Popen(
                [*words, str(self.folder / "root")],
                env=whole | env,
                stdin=subprocess.DEVNULL,
                stderr=said,
                text=True,
                start_new_session=True,
            ) as process,
        ):
            try:
                yield process
                (self.out / "over").touch()
                process.send_signal(signal.SIGUSR2)
                process.wait(HANG)
            finally:
                process.kill()

    def rows(self) -> Rows:
        """What was written, by the heading of the file."""
        try:
            with (self.out / "n1.csv").open(newline="") as file:
                return list(csv.DictReader(file))
        except FileNotFoundError:
            return []

    def said(self) -> str:
        """What it complained of."""
        return (self.folder / "said").read_text()

    def samples(self, gpu: str) -> Rows:
        """Those of one GPU, or of the host."""
        return [row for row in self.rows() if row["gpu"] == gpu]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def living(group: int) -> list[str]:
    """Command lines of what still runs of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = path.read_text().rpartition(")")[2].split()
            if int(words[3]) == group and words[0] != "Z":
                found.append((path.parent / "cmdline").read_text().replace("\0", " "))
        except (OSError, IndexError):
            continue
    return found


def hung(group: int) -> list[str]:
    """The tools of a session that do not answer."""
    return [line for line in living(group) if line.startswith("sleep 1234.5")]


def test_a_gpu_is_written_down_with_its_units_left_out(node: Node) -> None:
    node.tool(f"echo '{GOOD}'")
    begun = int(time.time())
    with node.watched() as process:
        until(lambda: len(node.samples("0")) >= 2)
    assert process.returncode == 0
    row = node.samples("0")[0]
    assert (row["util_pct"], row["mem_mib"], row["mem_total_mib"]) == ("97", "70123", "81559")
    assert (row["temp_c"], row["power_w"], row["power_limit_w"]) == ("65", "612.34", "700.00")
    assert (row["sm_mhz"], row["sm_max_mhz"], row["mem_mhz"]) == ("1755", "1980", "2619")
    assert row["throttle"] == "sw_power_cap"
    times = [int(r["time"]) for r in node.samples("0")]
    assert times == sorted(times)
    assert begun <= times[0] <= times[-1] <= time.time()


@pytest.mark.parametrize("name", ["clocks_event_reasons", "clocks_throttle_reasons", "none"])
def test_a_driver_is_asked_by_the_names_that_it_knows(node: Node, name: str) -> None:
    short = GOOD.rpartition(",")[0]
    node.tool(
        f"case $* in *{name}.active*) echo '{GOOD}' ;; *reasons*) echo '{UNKNOWN}'; exit 2 ;;"
        f" *) echo '{short}' ;; esac"
    )
    with node.watched():
        until(lambda: node.samples("0"))
    assert node.samples("0")[0]["throttle"] == ("" if name == "none" else "sw_power_cap")


def test_only_the_gpus_that_slurm_gave_are_asked_for(node: Node) -> None:
    node.tool(f"case $* in *--id=2,3*) echo '{GOOD}' ;; *) echo no; exit 6 ;; esac")
    with node.watched(CUDA_VISIBLE_DEVICES="2,3"):
        until(lambda: node.samples("0"))


def test_ids_that_the_tool_does_not_know_are_left_out(node: Node) -> None:
    node.tool(f"case $* in *--id=*) echo 'No devices were found'; exit 6 ;; esac; echo '{GOOD}'")
    with node.watched(CUDA_VISIBLE_DEVICES="GPU-deadbeef"):
        until(lambda: node.samples("0"))


@pytest.mark.parametrize(
    "value",
    ["[N/A]", "[Not Supported]", "ERR!", "[Unknown Error]", "[GPU is lost]", "N/A", "", "-1",
     "9" * 40, "$(touch here)", "\x1b[2J"],
)  # fmt: skip
def test_what_is_no_number_is_left_empty(node: Node, value: str) -> None:
    line = f"0, {value}, {value}, 81559, {value}, {value}, {value}, {value}, {value}, 7, {value}"
    (node.folder / "answer").write_text(line + "\n")
    node.tool(f"cat {node.folder}/answer")
    with node.watched():
        until(lambda: node.samples("0"))
    row = node.samples("0")[0]
    assert (row["mem_total_mib"], row["mem_mhz"]) == ("81559", "7")
    assert {row[k] for k in ("util_pct", "temp_c", "power_w", "sm_mhz", "throttle")} == {""}


def test_the_reasons_are_those_of_the_mask(node: Node) -> None:
    node.tool(f"echo '{GOOD.replace('0x0000000000000004', '0x00000000000000E9')}'")
    with node.watched():
        until(lambda: node.samples("0"))
    found = node.samples("0")[0]["throttle"].split("+")
    assert found == ["idle", "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake"]


def test_garbage_is_no_row_and_ends_nothing(node: Node) -> None:
    node.tool(f"head -c 3000 /dev/urandom; echo; echo '{GOOD}'; echo 'x, 1, 2'; echo '1, 2'")
    with node.watched():
        until(lambda: len(node.samples("host")) >= 2)
    assert {row["gpu"] for row in node.rows()} == {"0", "host"}


def test_an_endless_answer_is_cut_off(node: Node) -> None:
    node.tool("yes garbage")
    with node.watched() as process:
        until(lambda: len(node.samples("host")) >= 2)
        assert not [line for line in living(process.pid) if "yes" in line]


def test_a_tool_that_dies_later_is_complained_of_once(node: Node) -> None:
    node.tool(f"[[ -e {node.out}/n1.csv ]] && exit 15; echo '{GOOD}'")
    with node.watched():
        until(lambda: len(node.samples("host")) >= 3)
    assert node.said() == "jobgen: n1: nvidia-smi tells of no GPU\n"


def test_a_tool_that_fails_at_first_is_asked_again(node: Node) -> None:
    node.tool(f"[[ -e {node.out}/n1.csv ]] || exit 9; echo '{GOOD}'")
    with node.watched():
        until(lambda: node.samples("0"))
    assert node.said() == "jobgen: n1: nvidia-smi tells of no GPU\n"


def test_a_tool_that_hangs_and_cannot_be_ended_is_not_joined_by_a_second(node: Node) -> None:
    node.tool(
        f"[[ ! -e {node.out}/n1.csv ]] || {{ trap '' TERM; exec sleep 1234.5; }}; echo '{GOOD}'"
    )
    script = SCRIPT.read_text().replace("patience=10", "patience=1")
    own = node.folder / "monitor.sh"
    # what timeout kills in vain: a process that no signal reaches
    own.write_text(script.replace("timeout -k 1", "timeout -s 0 -k 60"))
    with node.watched(script=own) as process:
        until(lambda: hung(process.pid))
        seen = len(node.samples("host"))
        until(lambda: len(node.samples("host")) >= seen + 2)
        assert len(hung(process.pid)) == 1
        os.killpg(process.pid, signal.SIGCONT)
    assert not node.samples("0")


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGUSR2])
def test_nothing_is_left_after_its_end(node: Node, how: signal.Signals) -> None:
    node.tool(f"[[ ! -e {node.out}/n1.csv ]] || exec sleep 1234.5; echo '{GOOD}'")
    (node.out / "over").touch()
    with node.watched(every=9999) as process:
        until(lambda: hung(process.pid))
        process.send_signal(how)
        assert process.wait(HANG) == 0
        until(lambda: not living(process.pid))


def test_a_signal_of_the_user_ends_it_not(node: Node) -> None:
    with node.watched() as process:
        until(lambda: node.samples("host"))
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
            process.send_signal(number)
        seen = len(node.samples("host"))
        until(lambda: len(node.samples("host")) > seen + 1)


def test_it_ends_when_who_started_it_is_gone(node: Node) -> None:
    words = ["bash", "-c", f"bash {SCRIPT} 1 {node.out} 99999 {node.folder}/root & wait"]
    env = {"PATH": os.environ["PATH"], "SLURMD_NODENAME": "n1"}
    with subprocess.Popen(words, env=env, start_new_session=True) as shell:
        until(lambda: node.samples("host"))
        shell.kill()
        until(lambda: not living(shell.pid))


def test_the_node_is_looked_at_where_there_is_no_gpu(node: Node) -> None:
    node.file("sys/class/net/lo/statistics/rx_bytes", "1\n")
    for name, counter in (("rx_bytes", "1000"), ("tx_bytes", "2000")):
        node.file(f"sys/class/net/eth0/statistics/{name}", counter + "\n")
    counters = "sys/class/infiniband/mlx5_0/ports/1/counters"
    node.file(f"{counters}/port_rcv_data", "10\n")
    node.file(f"{counters}/port_xmit_data", "20\n")
    efa = "sys/class/infiniband/efa_0/ports/1/hw_counters"
    node.file(f"{efa}/rx_bytes", "5\n")
    node.file(f"{efa}/tx_bytes", "6\n")
    with node.watched(PATH="/usr/bin:/bin"):
        until(lambda: node.samples("host"))
        # 300 of the next 400 ticks were work
        node.file("proc/stat", "cpu  300 0 200 900 0 0 0 0 0 0\n")
        until(lambda: len(node.samples("host")) >= 2)
    row, later = node.samples("host")[:2]
    assert (row["load"], row["cpu_pct"], later["cpu_pct"]) == ("3.25", "", "75")
    assert (row["host_mib"], row["host_total_mib"]) == ("3072", "4096")
    assert (row["rx_bytes"], row["tx_bytes"]) == ("1000", "2000")
    assert (row["rdma_rx_bytes"], row["rdma_tx_bytes"]) == ("45", "86")
    assert (
        node.said() == "jobgen: n1: no nvidia-smi and no AMD GPU found: only the node is sampled\n"
    )


def test_cards_of_hardware_are_counted_and_bridges_are_not(node: Node) -> None:
    for name, count in (("eth0", "7"), ("docker0", "100")):
        node.file(f"sys/class/net/{name}/statistics/rx_bytes", count + "\n")
        node.file(f"sys/class/net/{name}/statistics/tx_bytes", count + "\n")
    node.file("sys/class/net/eth0/device/vendor", "0x15b3")
    with node.watched(PATH="/usr/bin:/bin"):
        until(lambda: node.samples("host"))
    assert node.samples("host")[0]["rx_bytes"] == "7"


def test_a_counter_that_cannot_be_read_for_a_moment_is_no_traffic(node: Node) -> None:
    """Else the sum would fall, and all that a card ever sent be traffic once it is back."""
    node.file("sys/class/net/eth0/statistics/rx_bytes", "1000\n")
    counter = node.file("sys/class/net/eth1/statistics/rx_bytes", "5000000\n")
    with node.watched(PATH="/usr/bin:/bin"):
        until(lambda: node.samples("host"))
        counter.write_text("")
        until(lambda: len(node.samples("host")) >= 3)
    assert {row["rx_bytes"] for row in node.samples("host")} == {"5001000"}


def test_a_clock_that_is_set_back_does_not_put_it_to_sleep(node: Node) -> None:
    """Bash counts seconds by the clock of the wall: an hour back would be an hour of silence."""
    script = node.folder / "monitor.sh"
    text = SCRIPT.read_text()
    back = '    (($(grep -c ,host, "$file") != 1)) || SECONDS=$((SECONDS - 3600))\n'
    script.write_text(
        text.replace("    next=$((next + every))\n", f"{back}    next=$((next + every))\n")
    )
    assert back in script.read_text()
    with node.watched(script=script, PATH="/usr/bin:/bin"):
        until(lambda: len(node.samples("host")) >= 3)


def test_amd_gpus_are_read_from_the_files_of_their_driver(node: Node) -> None:
    card = "sys/class/drm/card1/device"
    for name, text in (
        ("gpu_busy_percent", "88"),
        ("mem_info_vram_used", str(60 << 30)),
        ("mem_info_vram_total", str(64 << 30)),
        ("hwmon/hwmon3/temp1_input", "50000"),
        ("hwmon/hwmon3/temp2_input", "71000"),
        ("hwmon/hwmon3/power1_average", "480000000"),
        ("hwmon/hwmon3/power1_cap", "500000000"),
        ("hwmon/hwmon3/freq1_input", "1700000000"),
    ):
        node.file(f"{card}/{name}", text + "\n")
    with node.watched(PATH="/usr/bin:/bin"):
        until(lambda: node.samples("0"))
    row = node.samples("0")[0]
    assert (row["util_pct"], row["mem_mib"], row["mem_total_mib"]) == ("88", "61440", "65536")
    assert (row["temp_c"], row["power_w"], row["power_limit_w"]) == ("71", "480", "500")
    assert (row["sm_mhz"], row["mem_mhz"], row["throttle"]) == ("1700", "", "")


def test_a_file_that_grows_long_is_thinned_out_and_written_less_often(node: Node) -> None:
    node.tool(f"echo '{GOOD}'")
    most = 700
    with node.watched(most=most):
        until(lambda: node.samples("host"))
        sizes = [0]

        def thinned() -> bool:
            # how many samples fit depends on the digits of this machine's counters
            sizes.append((node.out / "n1.csv").stat().st_size)
            times = [int(row["time"]) for row in node.samples("host")]
            return sizes[-1] < max(sizes) and times[-1] - times[0] >= 4

        until(thinned, pause=0.02)
    assert max(sizes) < most + 200, "one sample more"
    times = [int(row["time"]) for row in node.samples("host")]
    assert len(times) <= times[-1] - times[0], "fewer than one a second"
    assert [row["time"] for row in node.samples("0")] == [str(t) for t in times]
    assert not [*node.out.glob(".*")]


def test_a_file_that_cannot_be_thinned_out_stays_whole(node: Node) -> None:
    part = node.out / ".n1.part"
    part.symlink_to("/dev/full")
    with node.watched(most=250, PATH="/usr/bin:/bin"):
        until(lambda: not part.is_symlink())
    assert not (node.out / "n1.csv").is_symlink()
    assert node.samples("host")


def test_a_disk_that_takes_nothing_ends_nothing(node: Node) -> None:
    (node.out / "n1.csv").symlink_to("/dev/full")
    with node.watched() as process:
        time.sleep(2.5)
        assert process.poll() is None
