"""``sh`` at a terminal, in a pipe, and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobgen.cli.output import is_tty
from jobgen.errors import Exit, Usage

if TYPE_CHECKING:
    from jobgen.app.attaching import NodeChoice
    from jobgen.cli.call import Call


def run_shell(call: Call, choice: NodeChoice, words: Sequence[str]) -> int | None:
    """Run a command on a node, or a shell; gives its exit code. Raises Usage."""
    from jobgen.app import attaching

    if call.flags.json:
        return _answer_json(call, choice, words)
    tty = is_tty(sys.stdin) and is_tty(sys.stdout)
    if not words and not tty:
        raise Usage(
            "a shell needs a terminal", hint=f"name a command: jobgen sh {choice.ref} -- COMMAND"
        )
    return attaching.enter_shell(call.world, choice, words, tty=tty)


def _answer_json(call: Call, choice: NodeChoice, words: Sequence[str]) -> int:
    from jobgen.app import attaching

    if not words:
        hint = f"name one: jobgen sh {choice.ref} --json -- COMMAND"
        raise Usage("--json needs a command to run", hint=hint)
    outcome = attaching.run_command(call.world, choice, words)
    data = {
        "job": outcome.node.record.alias,
        "node": outcome.node.node,
        "rank": outcome.node.rank,
        "exit": outcome.result.code,
        "stdout": outcome.result.text,
        "stderr": outcome.result.error_text,
    }
    call.write_envelope(data)
    return outcome.result.code or Exit.DONE
