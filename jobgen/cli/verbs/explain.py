"""``jobgen explain``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.errors import Usage


@verb("explain", "jobgen explain J131", "jobgen explain NCCL_IB_HCA", "jobgen explain 'FI_*'")
@click.argument("word", metavar="[CODE|VARIABLE]", required=False)
@click.option("--topo", metavar="FILE", help="Explain a saved nvidia-smi topo -m; - is stdin.")
def command(call: Call, word: str | None, topo: str | None) -> None:
    """Say what a code such as J131 means, or what an environment variable does.

    A variable of NCCL, PyTorch, libfabric, UCX, CUDA, RCCL and the like: its values, its default,
    since when, and whether it belongs in a script. Without a word, lists all codes.
    """
    if topo:
        _topology(call, topo, word)
        return
    from jobgen.app import explaining
    from jobgen.cli.screens import explain as screens

    found = explaining.explain(word)
    call.answer(lambda: screens.data(found), lambda ink: screens.screen(found, ink))


def _topology(call: Call, path: str, word: str | None) -> None:
    if word:
        raise Usage(f"explain takes --topo or {word}, not both")
    from jobgen.app import topology_text
    from jobgen.cli.screens import topology as screens

    found = topology_text.explain(path)
    call.answer(lambda: screens.data(found), lambda ink: screens.screen(found, ink))
