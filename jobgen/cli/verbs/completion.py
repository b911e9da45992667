"""``jobgen completion``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb


@verb(
    "completion",
    'eval "$(jobgen completion bash)"                # in ~/.bashrc',
    'eval "$(jobgen completion zsh)"                 # in ~/.zshrc',
    "jobgen completion fish > ~/.config/fish/completions/jobgen.fish",
)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(["bash", "zsh", "fish"]))
def command(call: Call, shell: str) -> None:
    """Print what a shell needs to complete verbs, flags, clusters and jobs.

    Names are looked up on this machine only; no cluster is asked.
    """
    from click.shell_completion import get_completion_class

    from jobgen.cli.main import ROOT

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  the choice above allows no other
    script = kind(ROOT, {}, "jobgen", "_JOBGEN_COMPLETE")
    text = script.source_template % script.source_vars()
    call.answer(lambda: {"script": text}, lambda _: text)
