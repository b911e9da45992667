"""``prune`` at the terminal: what runs hold, the question, and what was removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobgen.app import pruning
from jobgen.cli.screens import prune as screens
from jobgen.errors import Exit

if TYPE_CHECKING:
    from jobgen.app.pruning import Part, Selection
    from jobgen.cli.call import Call


def run(call: Call, selection: Selection, parts: Sequence[Part], *, dry_run: bool) -> Exit:
    """List what the runs hold, or ask and remove it; gives the exit code."""
    inventory = pruning.take_inventory(call.world, call.flags.cluster, selection, parts)
    if dry_run or not selection.chooses or not inventory.held:
        call.answer(
            lambda: screens.dump_inventory(inventory, parts),
            lambda ink: screens.draw_inventory(inventory, parts, ink, chosen=selection.chooses),
        )
        return Exit.DONE
    if not call.flags.yes:
        call.output.say(screens.draw_inventory(inventory, parts, call.output.talk, chosen=True))
    if not call.confirm(screens.ask_removal(inventory, parts)):
        call.output.say("nothing was removed")
        return Exit.DONE
    done = pruning.prune(call.world, inventory, parts)
    call.answer(
        lambda: screens.dump_pruned(done, parts),
        lambda _: screens.draw_pruned(done, parts),
    )
    return Exit.DONE if all(each.outcome != "failed" for each in done) else Exit.FAILED
