"""What carrying out one run needs of the world, and how long it may take."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobgen.errors import Unreachable
from jobgen.named_tuple import NamedTuple
from jobgen.transport import Payload

if TYPE_CHECKING:
    from jobgen.ledger import Ledger
    from jobgen.transport import Transport

PATIENCE = 60.0
"""Seconds to look into an unclear answer before the rest is left to later commands."""
LEASE = 600.0
"""Seconds after which another host may take a run up whose process has not been heard of."""
REDIALS = 3
"""So often a lost connection is made anew within one command."""


class SubmitStage(NamedTuple):
    """How far one stage of a submit has come."""

    number: int
    name: str
    """connect, upload or sbatch."""
    text: str = ""
    done: int = 0
    """Bytes, if the stage moves any."""
    total: int = 0
    ended: bool = False
    of: int = 3


Progress = Callable[[SubmitStage], None]


def ignore_stage(_: SubmitStage) -> None:
    """Progress that nobody watches."""


@dataclass
class RunContext:
    """What carrying out one run needs of the world."""

    transport: Transport
    ledger: Ledger
    now: Callable[[], float]
    sleep: Callable[[float], None]
    say: Callable[[str], None]
    redial: Callable[[], Transport] | None = None
    """Makes a new connection; without it a lost one ends the command."""
    progress: Progress = ignore_stage
    patience: float = PATIENCE
    nonce: Callable[[], str] = field(default=lambda: secrets.token_hex(6))
    redials: int = field(default=0, init=False)

    def reconnect(self, lost: Unreachable) -> Unreachable | None:
        """Make the connection anew; if that fails, the error of the last try."""
        while self.redial is not None and self.redials < REDIALS:
            self.redials += 1
            self.sleep(2.0 ** (self.redials - 1))
            try:
                self.transport = self.redial()
            except Unreachable as again:
                lost = again
            else:
                return None
        return lost

    def watch_upload(self, payload: Payload, token: str) -> Payload:
        """The payload, reported while it is sent; the run stays leased however long that takes."""
        return Payload(payload.size, self._watch(payload, token))

    def _watch(self, payload: Payload, token: str) -> Iterator[bytes]:
        done, leased = 0, self.now()
        for chunk in payload.chunks:
            yield chunk
            done += len(chunk)
            if self.now() - leased > LEASE / 10:
                leased = self.now()
                self.ledger.lease(token, LEASE)
            self.progress(SubmitStage(2, "upload", done=done, total=payload.size))
