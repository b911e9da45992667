"""What carrying out one run needs of the world, and how long it may take."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobgen.app.progress import Progress, silent
from jobgen.transport import Payload

if TYPE_CHECKING:
    from jobgen.ledger import Ledger
    from jobgen.transport import Transport

PATIENCE = 60.0
"""Seconds to look into an unclear answer before the rest is left to later commands."""
UPLOAD_DEADLINE = 3600.0
"""Seconds an upload may take; a link that stands still is found out by the transport."""
LEASE = 600.0
"""Seconds after which another host may take a run up whose process has not been heard of."""
REDIALS = 3
"""So often a lost connection is made anew within one command."""

Sender = Callable[[], Payload]
"""Makes the tar of the run directory; called once for each try."""


@dataclass
class Errand:
    """What carrying out one run needs of the world."""

    transport: Transport
    ledger: Ledger
    now: Callable[[], float]
    sleep: Callable[[float], None]
    say: Callable[[str], None]
    redial: Callable[[], Transport] | None = None
    """Makes a new connection; without it a lost one ends the command."""
    progress: Progress = silent
    patience: float = PATIENCE
    nonce: Callable[[], str] = field(default=lambda: secrets.token_hex(6))
