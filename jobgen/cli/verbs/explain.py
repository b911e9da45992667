"""``jobgen explain``."""

from __future__ import annotations

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import verb
from jobgen.cli.completers import complete_codes
from jobgen.errors import Usage


@verb("explain", "jobgen explain J131", "jobgen explain train.tp", "jobgen explain NCCL_IB_HCA")
@click.argument(
    "word",
    metavar="[CODE|KEY|VARIABLE|WORD|PATTERN]",
    required=False,
    shell_complete=complete_codes,
)
@click.option(
    "--topo", metavar="FILE", help="Explain saved output of nvidia-smi topo -m; - is stdin"
)
def command(call: Call, word: str | None, topo: str | None) -> None:
    """Explain an error code, a key of job.yaml or cluster.yaml, or an environment variable.

    Also words of the plan: its columns and terms (MFU, exposed), verdicts (tight), strategies and
    other values of keys (fsdp2); "words" lists them.
    For variables of jobgen, NCCL, PyTorch, libfabric, UCX, CUDA, RCCL and others: values, default,
    since which release, and whether to set them in a script. A pattern lists what fits: 'J13*',
    'train.*', 'NCCL_IB_*'. Without an argument, say what there is.
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
