"""``jobgen completion``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb


@verb(
    "completion",
    'eval "$(jobgen completion bash)"   # in ~/.bashrc',
    'eval "$(jobgen completion zsh)"    # in ~/.zshrc',
    "jobgen completion fish > ~/.config/fish/completions/jobgen.fish",
)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(["bash", "zsh", "fish"]))
def command(call: Call, shell: str) -> None:
    """Print the script that completes commands, options and jobs in your shell.

    Names are looked up on this machine; no cluster is contacted.
    """
    from jobgen.cli.completion_scripts import write_script
    from jobgen.cli.main import ROOT

    text = write_script(ROOT, shell)
    call.answer(lambda: {"script": text}, lambda _: text)
