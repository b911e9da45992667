"""``port``: a port of a node of a running job, on this machine, for as long as the job runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobgen.app.array_elements import find_run, narrow_run
from jobgen.app.attaching import NodeChoice, RunNode, find_login, find_node
from jobgen.errors import Unreachable
from jobgen.model.record import JobState
from jobgen.named_tuple import NamedTuple
from jobgen.scheduler.listeners import TABLES, Listening, parse_listeners
from jobgen.shell import Command

if TYPE_CHECKING:
    from jobgen.app.world import World
    from jobgen.model.record import RunRecord
    from jobgen.transport import ByteStream, Transport

_WAITING = (JobState.PENDING, JobState.REQUEUED, JobState.CONFIGURING)
RELAY = "relay_port.py"
LONGEST = 30.0
"""Seconds between two tries to connect again, at the most."""


class PortRequest(NamedTuple):
    """Which port of which node is wanted, and under which number here."""

    choice: NodeChoice
    port: int
    local: int | None = None
    """By default the same number."""


class ForwardedPort(NamedTuple):
    """A port of a node and where it is to be found on this machine."""

    node: RunNode
    port: int
    local: int
    wanted: int
    """The number that was asked for on this machine: it may be taken."""
    listening: Listening | None
    """Who can reach what listens there; None if that cannot be told."""

    @property
    def is_remote(self) -> bool:
        """Whether the node is another machine than this one."""
        return self.node.record.site.scheduler != "local"

    @property
    def url(self) -> str:
        """Where a browser finds it."""
        return f"http://127.0.0.1:{self.local}"


def forward_port(
    world: World, request: PortRequest, begun: Callable[[ForwardedPort], None]
) -> RunRecord | None:
    """Forward a port until the run has ended; gives its record then.

    ``begun`` is called once connections are accepted. A port of the local cluster that is asked
    for under its own number is on this machine already: then the answer is None, at once.
    Raises Usage, Missing, JobgenError, Unreachable.
    """
    session = _Session(world, request, world.connect(find_login(world, request.choice)))
    try:
        return session.run(begun)
    finally:
        session.transport.close()


@dataclass
class _Session:
    """One forwarded port, through lost connections."""

    world: World
    request: PortRequest
    transport: Transport
    last_report: str = field(default="", init=False)

    def run(self, begun: Callable[[ForwardedPort], None]) -> RunRecord | None:
        from jobgen.transport.forwarder import Forwarder

        request, port = self.request, self.request.port
        node = find_node(self.world, self.transport, request.choice)
        wanted = request.local or port
        listening = self._find_listener(node)
        local = node.record.site.scheduler == "local"  # its nodes are this machine
        if local and wanted == port:
            begun(ForwardedPort(node, port, port, port, listening))
            return None
        host = "127.0.0.1" if local else node.node
        relays = not local and listening in (Listening.NODE, Listening.NOWHERE)
        script = self._build_relay(node) if relays else ""

        def dial() -> ByteStream:
            if relays:
                return self.transport.open_program(script)
            return self.transport.open_stream(host, port)

        def report(reason: str) -> None:
            self._report(f"cannot connect to port {port} of {node.node}: {reason}")

        with Forwarder(wanted, dial, report) as forwarder:
            begun(ForwardedPort(node, port, forwarder.port, wanted, listening))
            return self._wait_for_end(node.record.alias)

    def _find_listener(self, node: RunNode) -> Listening | None:
        from jobgen.scheduler import get_scheduler

        scheduler = get_scheduler(node.record.site)
        step = scheduler.start_step(node.allocation, node.node, TABLES, name="jobgen-port")
        answer = self.transport.call(f"timeout 20 {step} </dev/null")
        return parse_listeners(answer.text, self.request.port)

    def _build_relay(self, node: RunNode) -> str:
        """The script whose standard streams are a connection made on the node itself.

        It reaches loopback addresses too. A program that is still to be started may listen there.
        """
        from jobgen import payload
        from jobgen.scheduler import get_scheduler

        words = ("python3", "-I", "-S", "-c", payload.text(RELAY), str(self.request.port))
        scheduler = get_scheduler(node.record.site)
        step = scheduler.start_step(
            node.allocation, node.node, Command(words), unbuffered=True, name="jobgen-port"
        )
        return f"exec {step}"

    def _report(self, reason: str) -> None:
        """Say why a connection failed, but the same reason once."""
        if reason != self.last_report:
            self.last_report = reason
            self.world.say(reason)

    def _wait_for_end(self, name: str) -> RunRecord:
        """The record once the node is no longer the run's: it ended, or is to start again."""
        from jobgen.app.jobs import choose_pause, observe

        record, elements = find_run(self.world, name)
        restarts, pause = record.restarts, 1.0
        while True:
            pause = choose_pause(record, pause)
            self.world.sleep(pause)
            try:
                record = observe(self.world, self.transport, (record,))[0]
            except Unreachable as error:
                self._reconnect(error)
            narrowed = narrow_run(record, elements)
            if narrowed.ended or narrowed.state in _WAITING or record.restarts != restarts:
                return narrowed

    def _reconnect(self, error: Unreachable) -> None:
        """Connect again, however often that takes."""
        self.world.say(f"{error}; connecting again")
        self.transport.close()
        pause = 1.0
        while True:
            try:
                self.transport = self.world.connect(find_login(self.world, self.request.choice))
            except Unreachable:
                pause = min(2 * pause, LONGEST)
                self.world.sleep(pause)
            else:
                return
