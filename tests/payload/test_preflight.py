"""preflight.sh as a node runs it: every check on a node that is well, and on one that is not."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.ports import reserved_port
from tests.waiting import HANG

PAYLOAD = Path(__file__).parents[2] / "jobgen" / "payload"
DF = """echo 'Filesystem 1024-blocks Used Available Capacity Mounted on'
echo 'tmpfs 8388608 1024 {free} 1% '"$2\""""
HEALTHY = "0,0,No,550.90.07,1980,700.00,NVIDIA H100 80GB HBM3"
"""One GPU as --query-gpu tells it: index, ECC, pages, driver, clock, power limit, name."""
AWAKE = "0, Not Active, Not Active, Not Active, Not Active"

UNLIMITED = '[[ $1 != -k ]] || shift 2; shift; exec "$@"'
"""A ``timeout`` that ends nothing: a node that is well is so on a busy machine too."""
CLOCK = """
unset BASH_ENV SECONDS
SECONDS=0
sleep() {
    SECONDS=$((SECONDS + 1))
    command sleep "$1"
}
"""
"""A clock for the script under test, read as BASH_ENV: time passes only where it sleeps."""

Lines = list[tuple[str, ...]]


class Node:
    """A node of files: its /sys and /proc, and the tools on its PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "bin").mkdir()
        self.free(4096)
        self.tool("timeout", UNLIMITED)
        (folder / "clock").write_text(CLOCK)
        self.tool("dmesg", "exit 1")
        self.tool("ip", "echo '2: eth0 inet 192.0.2.7/24 scope global eth0'")
        self.file("proc/uptime", "100000.00 5.00\n")

    def file(self, path: str, text: str) -> None:
        place = self.folder / "root" / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def tool(self, name: str, body: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/bash\n{body}\n")
        path.chmod(0o755)

    def free(self, mib: int) -> None:
        """So many MiB are free everywhere."""
        self.tool("df", DF.format(free=mib * 1024))

    def card(self, name: str, state: str = "4: ACTIVE", rate: str = "200 Gb/sec (4X HDR)") -> None:
        """An RDMA card with one port."""
        port = f"sys/class/infiniband/{name}/ports/1"
        self.file(f"{port}/state", state + "\n")
        self.file(f"{port}/rate", rate + "\n")
        self.file(f"{port}/link_layer", "InfiniBand\n")

    def interface(self, name: str, state: str = "up", carrier: str = "1") -> None:
        self.file(f"sys/class/net/{name}/operstate", state + "\n")
        self.file(f"sys/class/net/{name}/carrier", carrier + "\n")

    def gpus(
        self,
        count: int = 8,
        *,
        row: str = HEALTHY,
        remapped: str = "",
        slow: str = "",
        apps: str = "",
        old: bool = False,
    ) -> None:
        """An nvidia-smi; ``old`` knows the throttle reasons by their name before release 535."""
        listed = "\n".join(f"echo 'GPU {i}: NVIDIA H100 (UUID: GPU-{i})'" for i in range(count))
        reasons = "clocks_throttle_reasons" if old else "clocks_event_reasons"
        self.tool(
            "nvidia-smi",
            f"""echo "$*" >>{self.folder}/asked
case "$*" in
    -L) {listed or 'echo "No devices were found"; exit 6'} ;;
    *--query-gpu=index,ecc*) echo '{row.replace(",", ", ")}' ;;
    *--query-gpu=index,{reasons}.*) echo '{slow or AWAKE}' ;;
    *--query-gpu=*) echo 'Field "x" is not a valid field to query.'; exit 2 ;;
    *--query-remapped-rows=*) echo '{remapped}' ;;
    *--query-compute-apps=*) echo '{apps}' ;;
esac""",
        )

    def look(self, *expect: str, **env: str) -> Lines:
        """What the node says: kind and words of each line."""
        done = subprocess.run(
            ["bash", str(PAYLOAD / "preflight.sh"), *expect],
            env={
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "BASH_ENV": str(self.folder / "clock"),
                "PREFLIGHT_ROOT": str(self.folder / "root"),
                "SLURMD_NODENAME": "n1",
                "HOME": str(self.folder),
                **env,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=HANG,
        )
        assert done.stderr == ""
        lines = [tuple(line.split("\t")) for line in done.stdout.splitlines()]
        assert {line[0] for line in lines} == {"n1"}
        kinds = [line[1] for line in lines]
        assert kinds[0] == "clock"
        assert kinds.count("end") == 1
        return [line[1:] for line in lines]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


LEVELS = ("bad", "odd", "wrong", "warn", "skip")


def found(lines: Lines) -> list[tuple[str, str]]:
    """Level and text of what is wrong."""
    return [(line[0], line[1]) for line in lines if line[0] in LEVELS]


def test_a_node_that_is_well_says_what_it_has_and_nothing_else(node: Node) -> None:
    node.gpus()
    node.card("mlx5_0")
    node.interface("ib0")
    lines = node.look("gpus=8", "shm=512", "cards=1", "hca==mlx5_0", "gbps=200", "ifname==ib0")
    assert found(lines) == []
    facts = {line[1]: line[2] for line in lines if line[0] == "fact"}
    assert facts.pop("kernel") == os.uname().release
    assert facts == {
        "GPU": "NVIDIA H100 80GB HBM3",
        "NVIDIA driver": "550.90.07",
        "highest GPU clock": "1980 MHz",
        "GPU power limit": "700.00 W",
    }


@pytest.mark.parametrize(
    ("gpus", "level", "said"),
    [
        ({"count": 7}, "bad", "7 of 8 GPUs are there"),
        ({"count": 0}, "bad", "0 of 8 GPUs are there (No devices were found)"),
        ({"row": HEALTHY.replace("0,0,No", "3,2,No")}, "bad", "GPU 3 has 2 uncorrected ECC errors"),
        ({"row": HEALTHY.replace("0,No", "0,Yes")}, "bad", "GPU 0 waits to retire pages"),
        ({"row": HEALTHY.replace("0,0,No", "0,[N/A],[N/A]")}, "", ""),
        ({"remapped": "00000000:1B:00.0, Yes, No"}, "bad", "waits to remap rows"),
        ({"remapped": "00000000:1B:00.0, 0, 1"}, "bad", "no spare memory rows left"),
        ({"remapped": "00000000:1B:00.0, No, No"}, "", ""),
        (
            {"slow": "5, Active, Not Active, Active, Not Active"},
            "bad",
            "GPU 5 is slowed down: too hot",
        ),
        ({"slow": "5, Not Active, Active, Active, Not Active"}, "bad", "power brake"),
        (
            {"slow": "5, Not Active, Not Active, Active, Not Active"},
            "warn",
            "before it has anything",
        ),
        ({"slow": "5, Active, Not Active, Active, Active", "old": True}, "bad", "too hot"),
        ({"apps": "GPU-1, 4711, 30000, python"}, "bad", "process 4711 (python) holds 30000 MiB"),
        ({"apps": "GPU-1, 4711, 12, mps"}, "warn", "process 4711 (mps) is on a GPU"),
        ({"apps": "GPU-1, 4711, [N/A], python"}, "warn", "process 4711 (python) is on a GPU"),
    ],
)
def test_gpus(node: Node, gpus: dict[str, object], level: str, said: str) -> None:
    node.gpus(**gpus)  # type: ignore[arg-type]
    told = found(node.look("gpus=8"))
    assert [each for each, _ in told] == ([level] if level else [])
    assert all(said in text for _, text in told)


def test_without_gpus_asked_for_no_gpu_is_looked_at(node: Node) -> None:
    node.gpus(0)
    assert found(node.look()) == []
    assert not (node.folder / "asked").exists()


def test_of_a_shared_node_only_the_jobs_own_gpus_are_looked_at(node: Node) -> None:
    node.gpus(8)
    node.look("gpus=2", CUDA_VISIBLE_DEVICES="4,5")
    asked = (node.folder / "asked").read_text().splitlines()
    assert asked[0] == "-L"
    assert all(line.startswith("-i 4,5 ") for line in asked[1:])


def test_gpus_of_other_jobs_are_not_taken_for_the_jobs_own(node: Node) -> None:
    node.gpus(8, apps="GPU-7, 4711, 30000, python")
    told = found(node.look("gpus=2"))
    assert told == [("skip", "GPUs: which 2 of the 8 are this job's")]


def test_a_slow_nvidia_smi_is_counted_with_and_not_asked_again(node: Node) -> None:
    """Without persistence mode each question takes seconds: the deadline is for hangs."""
    node.gpus()
    script = node.folder / "bin" / "nvidia-smi"
    script.write_text(script.read_text().replace("#!/bin/bash\n", "#!/bin/bash\nsleep 6\n"))
    told = found(node.look("gpus=8", BASH_ENV=""))
    assert [level for level, _ in told] == ["warn", "skip"]
    assert (node.folder / "asked").read_text() == "-L\n"


def test_a_gpu_that_differs_from_its_neighbours_shows_in_the_facts_of_the_node(node: Node) -> None:
    slower = HEALTHY.replace("700.00", "350.00")
    node.gpus(row=f"{slower}'; echo '{HEALTHY}'; echo '{HEALTHY}")
    facts = {line[1]: line[2] for line in node.look("gpus=8") if line[0] == "fact"}
    assert facts["GPU power limit"] == "350.00 W, 700.00 W"
    assert facts["highest GPU clock"] == "1980 MHz"


def test_long_words_are_cut_so_that_srun_sends_whole_lines(node: Node) -> None:
    node.gpus(apps=f"GPU-1, 7, 30000, {'x' * 9000}")
    assert all(len("\t".join(line)) < 1000 for line in node.look("gpus=8", NCCL_X="y" * 9000))


@pytest.mark.parametrize(("others", "level"), [("1", "odd"), ("0", "warn")])
def test_a_small_dev_shm_is_the_sites_where_all_have_it(
    node: Node, others: str, level: str
) -> None:
    node.tool("df", "echo x; echo 'tmpfs 65536 0 65536 0% /dev/shm'")
    said = "has 64 MiB free of 64, and needs 512"
    told = found(node.look("shm=512", f"others={others}", "first=n0"))
    assert [each for each, text in told if said in text] == [level]


@pytest.mark.parametrize("body", ["sleep 30", "trap '' TERM; sleep 30"])
def test_an_nvidia_smi_that_hangs_is_a_bad_node(node: Node, body: str) -> None:
    node.tool(
        "timeout",
        f"case $* in *nvidia-smi*) exit 124 ;; esac; {UNLIMITED}",
    )
    node.tool("nvidia-smi", body)
    assert found(node.look("gpus=8")) == [("bad", "nvidia-smi does not answer in 20 s")]


def test_an_nvidia_smi_that_cannot_be_run_is_not_looked_at(node: Node) -> None:
    node.tool("nvidia-smi", "exit 127")
    assert found(node.look("gpus=8")) == [("skip", "GPUs: nvidia-smi cannot be run")]


def test_an_nvidia_smi_of_other_words_brings_no_finding_but_the_count(node: Node) -> None:
    node.tool("nvidia-smi", "printf 'GPU %d: x (UUID: GPU-1)\\n' 0 1 2 3 4 5 6 7; echo $'\\e[31m'")
    lines = node.look("gpus=8")
    assert [level for level, _ in found(lines)] == []
    assert all(word.isprintable() for line in lines for word in line)


def test_xids_of_the_hardware_in_the_last_hour_are_told_of(node: Node) -> None:
    node.gpus()
    line = "[{time}] NVRM: Xid (PCI:0000:1b:00): {code}, pid=7, GPU has fallen off the bus."
    for time, code, told in ((99000.5, 79, 1), (10.0, 79, 0), (99000.5, 31, 0)):
        node.tool("dmesg", f"echo '{line.format(time=time, code=code)}'")
        assert len(found(node.look("gpus=8"))) == told, (time, code)


def test_amd_gpus_are_counted_and_their_errors_read(node: Node) -> None:
    for number, gpu in enumerate((0, 0, 111, 222)):
        node.file(f"sys/class/kfd/kfd/topology/nodes/{number}/gpu_id", f"{gpu}\n")
    node.file("sys/module/amdgpu/version", "6.7.0\n")
    node.file("sys/class/drm/card0/device/ras/umc_err_count", "ue: 0\nce: 7\n")
    path = f"{node.folder / 'bin'}:/usr/bin:/bin"
    assert found(node.look("gpus=2", PATH=path)) == []
    assert found(node.look("gpus=4", PATH=path)) == [("bad", "2 of 4 GPUs are there")]
    node.file("sys/class/drm/card1/device/ras/umc_err_count", "ue: 3\nce: 0\n")
    ((level, said),) = found(node.look("gpus=2", PATH=path))
    assert (level, "3 uncorrected errors in card1" in said) == ("bad", True)


@pytest.mark.parametrize(
    ("hca", "ready"),
    [
        ("=mlx5_0,mlx5_1", 2),
        ("=mlx5_1", 1),  # and not mlx5_10
        ("mlx5_1", 2),  # a prefix
        ("mlx5", 3),
        ("^mlx5_10", 2),
        ("^=mlx5_1", 2),
        ("=mlx5_1:1", 1),
        ("=mlx5_1:2", 0),
        ("=mlx5_9", 0),
        ("", 3),
    ],
)
def test_the_cards_are_those_that_nccl_would_take(node: Node, hca: str, ready: int) -> None:
    for name in ("mlx5_0", "mlx5_1", "mlx5_10"):
        node.card(name)
    assert found(node.look(f"cards={ready}", f"hca={hca}")) == []
    ((level, said),) = found(node.look(f"cards={ready + 1}", f"hca={hca}"))
    assert (level, said) == ("odd", f"{ready} of {ready + 1} network cards are ready")


@pytest.mark.parametrize(
    ("card", "said"),
    [
        ({"state": "1: DOWN"}, "mlx5_1:1 is DOWN"),
        ({"state": "2: INIT"}, "mlx5_1:1 is INIT"),
        ({"rate": "100 Gb/sec (4X EDR)"}, "mlx5_1:1 runs at 100 Gb/s instead of 200"),
        ({"rate": "2.5 Gb/sec (1X SDR)"}, "mlx5_1:1 runs at 2 Gb/s instead of 200"),
    ],
)
def test_a_card_that_is_down_or_slow_is_named(node: Node, card: dict[str, str], said: str) -> None:
    node.card("mlx5_0")
    node.card("mlx5_1", **card)
    told = found(node.look("cards=2", "hca==mlx5_0,mlx5_1", "gbps=200", "layer=InfiniBand"))
    assert told == [("odd", f"1 of 2 network cards are ready: {said}")]


def test_a_port_of_another_kind_of_link_does_not_count(node: Node) -> None:
    node.card("mlx5_0")
    assert found(node.look("cards=1", "layer=Ethernet"))[0][0] == "odd"


@pytest.mark.parametrize(
    ("state", "carrier", "address", "said"),
    [
        ("up", "1", True, ""),
        ("unknown", "1", True, ""),
        ("down", "0", True, "no interface of ib0 is ready: ib0 is down"),
        ("lowerlayerdown", "", True, "no interface of ib0 is ready: ib0 is down"),
        ("up", "0", True, "no interface of ib0 is ready: ib0 is down"),
        ("up", "1", False, "no interface of ib0 is ready: ib0 has no address"),
    ],
)
def test_the_interface(node: Node, state: str, carrier: str, address: bool, said: str) -> None:
    node.interface("eth0")
    node.interface("ib0", state, carrier)
    if not address:
        node.tool("ip", "exit 0")
    assert found(node.look("ifname==ib0")) == ([("bad", said)] if said else [])
    assert found(node.look("ifname==ib7")) == [("bad", "no interface of ib7 is ready")]


def test_loopback_counts_only_where_it_is_named(node: Node) -> None:
    node.interface("lo", "unknown")
    assert found(node.look("ifname==lo")) == []
    assert found(node.look("ifname=^docker"))[0][0] == "bad"


def test_of_several_interfaces_one_that_is_down_is_a_warning(node: Node) -> None:
    node.interface("ib0")
    node.interface("ib1", "down", "0")
    assert found(node.look("ifname=ib")) == [("warn", "ib1 is down")]


@pytest.mark.parametrize(
    ("mib", "levels"),
    [(4096, []), (600, ["warn"] * 3), (100, ["bad", "warn", "warn"]), (1, ["bad", "bad", "wrong"])],
)
def test_room_in_shm_tmp_and_the_run_directory(node: Node, mib: int, levels: list[str]) -> None:
    node.free(mib)
    lines = node.look("shm=512", "first=n1", JOBGEN_RUN_DIR="/run-of-n1")
    assert [level for level, _ in found(lines)] == levels
    elsewhere = node.look("shm=512", "first=n0", JOBGEN_RUN_DIR="/run-of-n1")
    assert [level for level, _ in found(elsewhere)] == levels[:2]


def test_a_df_that_says_nothing_is_said_so(node: Node) -> None:
    node.tool("df", "exit 1")
    assert {level for level, _ in found(node.look("shm=512"))} == {"skip"}


def test_what_the_job_did_not_set_is_left_over(node: Node) -> None:
    told = found(
        node.look("env=NCCL_DEBUG", NCCL_DEBUG="WARN", NCCL_ALGO="Ring", PET_NNODES="9", RANK="3")
    )
    assert {text.partition(" ")[0] for _, text in told} == {
        "NCCL_ALGO=Ring",
        "PET_NNODES=9",
        "RANK=3",
    }
    assert {level for level, _ in told} == {"warn"}
    (node.folder / ".nccl.conf").write_text("NCCL_IB_DISABLE=1\n")
    assert found(node.look()) == [("warn", "NCCL reads ~/.nccl.conf")]


def test_a_home_that_hangs_can_be_named(node: Node) -> None:
    """Its file is looked at by bash itself, which has no deadline."""
    looks = [line[1] for line in node.look() if line[0] == "look"]
    assert looks[0] == "the home folder"


def test_too_little_memory_that_may_be_locked(node: Node) -> None:
    limit = "ulimit -l 8192 2>/dev/null; exec bash"
    done = subprocess.run(
        ["bash", "-c", f"{limit} {PAYLOAD / 'preflight.sh'} memlock=1048576"],
        capture_output=True,
        text=True,
    )
    assert "\todd\tonly 8192 KiB of memory may be locked" in done.stdout
    done = subprocess.run(
        ["bash", "-c", f"{limit} {PAYLOAD / 'preflight.sh'} memlock=64"],
        capture_output=True,
        text=True,
    )
    assert "may be locked" not in done.stdout


# ---- the way to the head


def test_a_head_without_a_name(node: Node) -> None:
    node.tool("getent", "exit 2")
    lines = node.look("head=n0", "port=20001", "first=n0")
    assert found(lines) == [("bad", "the name of the head, n0, is not known here")]


def test_a_head_that_is_this_node_by_mistake(node: Node) -> None:
    node.tool("getent", "echo '127.0.1.1 n0'")
    lines = node.look("head=n0", "port=20001", "first=n0")
    assert found(lines) == [("bad", "the head, n0, is 127.0.1.1 here: this node itself")]


def test_a_name_service_that_hangs_says_nothing_of_the_head(node: Node) -> None:
    node.tool("getent", "exit 124")
    assert not any(
        "not known" in text for _, text in found(node.look("head=127.0.0.1", "port=1", "local=yes"))
    )


def kinds(lines: Lines) -> set[str]:
    return {line[0] for line in lines}


@contextmanager
def head_node() -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The preflight of a head that listens for one other node, and its port."""
    with reserved_port() as port:
        words = ("first=n0", "others=1", f"port={port}", f"patience={HANG:.0f}")
        with subprocess.Popen(
            ["bash", str(PAYLOAD / "preflight.sh"), *words],
            env={**os.environ, "SLURMD_NODENAME": "n0"},
            stdout=subprocess.PIPE,
            text=True,
        ) as head:
            try:
                assert head.stdout is not None
                for line in head.stdout:
                    if line == "n0\tlistens\tpython3\n":
                        break
                else:
                    pytest.fail("the head does not listen")
                yield port, head
            finally:
                head.terminate()


def test_a_head_that_listens_is_reached_and_its_port_is_free_at_once(node: Node) -> None:
    node.tool("getent", "echo '127.0.0.1 localhost'")
    with head_node() as (port, head):
        lines = node.look("head=127.0.0.1", f"port={port}", "first=n0", "local=yes")
        head.communicate(timeout=HANG)
    assert "reached" in kinds(lines)
    with socket.socket() as store:
        store.bind(("", port))
        store.listen()


def test_a_stranger_who_says_nothing_is_not_counted_by_the_head(node: Node) -> None:
    with head_node() as (port, head):
        socket.create_connection(("127.0.0.1", port)).close()
        lines = node.look("head=127.0.0.1", f"port={port}", "first=n0", "local=yes")
        head.communicate(timeout=HANG)
    assert head.returncode == 0
    assert "reached" in kinds(lines)


def test_nobody_listens_where_there_is_no_python(node: Node) -> None:
    node.tool("getent", "echo '127.0.0.1 localhost'")
    bare = node.folder / "bare"
    bare.mkdir()
    for name in ("bash", "timeout", "date", "uname", "awk", "grep", "sed", "sleep"):
        (bare / name).symlink_to(
            next(p for p in (Path("/bin") / name, Path("/usr/bin") / name) if p.exists())
        )
    path = f"{node.folder / 'bin'}:{bare}"
    lines = node.look("head=127.0.0.1", "port=1", "first=n0", "local=yes", PATH=path)
    assert "refused" in kinds(lines)
    lines = node.look("head=n1", "port=20001", "first=n1", "others=3", PATH=path)
    assert found(lines) == [("skip", "whether the port is open: no python3 here to listen on it")]


def test_a_port_that_is_taken_is_the_jobs_bad_luck_and_not_the_nodes(node: Node) -> None:
    with socket.socket() as other:
        other.bind(("", 0))
        other.listen()
        port = other.getsockname()[1]
        lines = node.look("first=n1", "others=1", f"port={port}", "patience=5")
    assert found(lines) == [("wrong", f"port {port}: Address already in use")]
