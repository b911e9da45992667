"""No connection at all: the scripts run on this machine, with the semantics of a remote one."""

from __future__ import annotations

from jobgen.transport.pipes import PipeChannel
from jobgen.transport.protocol import BOOTSTRAP, Session


class LocalTransport(Session):
    """A Transport to this machine; in a session of its own, so that Ctrl-C does not reach it."""

    def __init__(self) -> None:
        words = ["/bin/sh", "-c", BOOTSTRAP]
        super().__init__(PipeChannel(words, own_session=True), "this machine")
