"""What ``port`` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.scheduler.listeners import Listening

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobgen.app.forwarding import ForwardedPort


def dump_port(forwarded: ForwardedPort) -> dict[str, Any]:
    """A forwarded port as plain data."""
    return {
        "url": forwarded.url,
        "local_port": forwarded.local,
        "job": forwarded.node.record.alias,
        "node": forwarded.node.node,
        "port": forwarded.port,
        "listening": forwarded.listening,
    }


def draw_port(forwarded: ForwardedPort) -> str:
    """One line: where it is, and what it leads to."""
    node = forwarded.node
    return f"{forwarded.url}  ({node.record.alias}: port {forwarded.port} of {node.node})\n"


def list_notes(forwarded: ForwardedPort) -> Sequence[str]:
    """What keeps it from being what was asked for, and what to do about that."""
    where = f"port {forwarded.port} of {forwarded.node.node}"
    notes = []
    if forwarded.local != forwarded.wanted:
        notes.append(f"port {forwarded.wanted} of this machine is taken: using {forwarded.local}")
    if forwarded.listening is Listening.NOWHERE:
        notes.append(f"nothing listens on {where} yet: reload when it does")
    if forwarded.listening is Listening.NODE and forwarded.is_remote:
        notes.append(
            f"{where} accepts only connections from the node itself: each one is relayed by a "
            "step of the job (srun --overlap)"
        )
    return notes
