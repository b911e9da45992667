"""Connections to ports beyond the machine that submits, over each transport, and forwarded ones."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from jobgen import payload
from jobgen.app.forwarding import RELAY
from jobgen.shell import Command
from jobgen.transport import ByteStream, Transport
from jobgen.transport.forwarder import Forwarder
from tests.transport.conftest import everywhere
from tests.waiting import HANG, until

DATA = bytes(range(256)) * 4000


@contextmanager
def echo() -> Iterator[int]:
    """A server that sends back what it gets, to the end, and then hangs up; its port."""

    def serve(plug: socket.socket) -> None:
        with plug, suppress(OSError):
            while data := plug.recv(1 << 16):
                plug.sendall(data)

    def accept(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, args=(server,), daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


@contextmanager
def closed() -> Iterator[int]:
    """A port that nobody listens on and nobody else gets."""
    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        yield plug.getsockname()[1]


def read_all(stream: ByteStream | socket.socket) -> bytes:
    pieces = iter(lambda: stream.recv(1 << 16), b"")
    return b"".join(pieces)


def send(stream: ByteStream, data: bytes) -> None:
    stream.sendall(data)
    stream.shutdown_write()


def fetch(port: int, data: bytes) -> bytes:
    """What a client of a forwarded port gets for these bytes."""
    with socket.create_connection(("127.0.0.1", port), HANG) as plug:
        sender = threading.Thread(target=lambda: (plug.sendall(data), plug.shutdown(1)))
        sender.start()
        answer = read_all(plug)
        sender.join()
        return answer


@everywhere
def test_a_stream_carries_every_byte_both_ways_and_both_ends(transport: Transport) -> None:
    with echo() as port:
        stream = transport.open_stream("127.0.0.1", port)
        sender = threading.Thread(target=send, args=(stream, DATA))
        sender.start()
        assert read_all(stream) == DATA
        sender.join()
        assert stream.describe_failure() == ""
        stream.close()
        stream.close()


@everywhere
def test_the_streams_of_a_program_carry_every_byte(transport: Transport) -> None:
    stream = transport.open_program("cat; printf end")
    sender = threading.Thread(target=send, args=(stream, DATA))
    sender.start()
    assert read_all(stream) == DATA + b"end"
    sender.join()
    assert stream.describe_failure() == ""
    stream.close()
    stream.close()


@everywhere
def test_a_program_that_fails_before_it_answers_says_why(transport: Transport) -> None:
    stream = transport.open_program("echo 'not here' >&2; exit 1")
    assert read_all(stream) == b""
    assert stream.describe_failure() == "not here"
    stream.close()


@everywhere
def test_a_relay_carries_every_byte_both_ways_and_both_ends(transport: Transport) -> None:
    with echo() as port:
        words = ("python3", "-I", "-S", "-c", payload.text(RELAY), str(port))
        stream = transport.open_program(f"exec {Command(words)}")
        sender = threading.Thread(target=send, args=(stream, DATA))
        sender.start()
        assert read_all(stream) == DATA
        sender.join()
        stream.close()


@everywhere
def test_calls_go_on_beside_streams(transport: Transport) -> None:
    with echo() as port:
        streams = [transport.open_stream("127.0.0.1", port) for _ in range(5)]
        assert transport.call("echo here").text == "here\n"
        for number, stream in enumerate(streams):
            send(stream, b"%d" % number)
        assert [read_all(stream) for stream in streams] == [b"0", b"1", b"2", b"3", b"4"]
        for stream in streams:
            stream.close()


@everywhere
def test_a_port_is_forwarded_for_many_clients_at_once(transport: Transport) -> None:
    reports: list[str] = []
    with echo() as port:

        def dial() -> ByteStream:
            return transport.open_stream("127.0.0.1", port)

        with Forwarder(0, dial, reports.append) as forwarder:
            answers: dict[int, bytes] = {}

            def ask(number: int) -> None:
                answers[number] = fetch(forwarder.port, DATA[number:])

            clients = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
            for client in clients:
                client.start()
            for client in clients:
                client.join(HANG)
            assert answers == {number: DATA[number:] for number in range(6)}
    assert reports == []


@everywhere
def test_a_client_hears_at_once_where_nobody_listens_and_the_reason_is_told(
    transport: Transport,
) -> None:
    reports: list[str] = []
    with closed() as port:

        def dial() -> ByteStream:
            return transport.open_stream("127.0.0.1", port)

        with Forwarder(0, dial, reports.append) as forwarder:
            plug = socket.create_connection(("127.0.0.1", forwarder.port), HANG)
            with plug, suppress(ConnectionResetError):
                assert plug.recv(1) == b""
            until(lambda: len(reports) == 1, "the reason")


def test_a_port_that_is_taken_is_replaced_and_only_this_machine_is_let_in() -> None:
    def dial() -> ByteStream:
        raise ConnectionError("nobody")

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        Forwarder(taken.getsockname()[1], dial, lambda _: None) as forwarder,
    ):
        assert forwarder.port not in (0, taken.getsockname()[1])
        assert forwarder.address == "127.0.0.1"


def test_a_closed_forwarder_frees_its_port() -> None:
    def dial() -> ByteStream:
        raise ConnectionError("nobody")

    with Forwarder(0, dial, lambda _: None) as forwarder:
        port = forwarder.port
    with socket.socket() as plug:
        assert plug.connect_ex(("127.0.0.1", port)) != 0
