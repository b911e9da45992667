"""Which port is open to whom, in tables as the kernel prints them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from jobgen.scheduler.listeners import TABLES, Listening, parse_listeners

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
TAIL = "00000000:00000000 00:00000000 00000000 64042        0 2687551 1 0000000000000000 100 0\n"
ANY6, LOOP6 = "0" * 32, "0" * 24 + "01000000"
MAPPED = "0000000000000000FFFF00000100007F"


def write_row(address: str, port: int, state: str = "0A") -> str:
    return f"   1: {address}:{port:04X} {'0' * len(address)}:0000 {state} {TAIL}"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("", Listening.NOWHERE),
        (write_row("00000000", 6006), Listening.NETWORK),
        (write_row(ANY6, 6006), Listening.NETWORK),
        (write_row("0C6433C6", 6006), Listening.NETWORK),
        (write_row("0100007F", 6006), Listening.NODE),
        (write_row(LOOP6, 6006), Listening.NODE),
        (write_row(MAPPED, 6006), Listening.NODE),
        (write_row("0100007F", 6006) + write_row("00000000", 6006), Listening.NETWORK),
        (write_row("00000000", 6007), Listening.NOWHERE),
        (write_row("0C6433C6", 6006, state="01"), Listening.NOWHERE),
    ],
)
def test_a_port_is_open_to_the_network_to_its_node_or_to_nobody(
    rows: str, expected: Listening
) -> None:
    assert parse_listeners(HEAD + rows, 6006) is expected


@pytest.mark.parametrize("text", ["", "cat: /proc/net/tcp: No such file or directory", "\0\xff"])
def test_what_is_no_table_tells_nothing(text: str) -> None:
    assert parse_listeners(text, 6006) is None


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs the kernel's own table")
@pytest.mark.parametrize(
    ("address", "expected"), [("127.0.0.1", Listening.NODE), ("", Listening.NETWORK)]
)
def test_the_kernel_s_own_table_is_understood(address: str, expected: Listening) -> None:
    with socket.create_server((address, 0)) as server:
        text = "".join(Path(str(path)).read_text() for path in TABLES.words[1:2])
        assert parse_listeners(text, server.getsockname()[1]) is expected
