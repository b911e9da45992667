"""rank.sh as a rank of torchrun gets it, with all that may stand in it at once."""

from __future__ import annotations

import re

from jobgen import payload

OTHERS = frozenset({"mpirun", "sharing", "sharing_nvidia", "sharing_amd", "neighbors"})
"""Blocks of another launcher, and of GPUs that several ranks share."""


def build_rank_script() -> str:
    """The script with every block but ``OTHERS``."""
    text = payload.text("rank.sh")
    blocks = set(re.findall(r"^#if (\w+)$", text, re.MULTILINE))
    assert blocks > OTHERS
    return payload.select_blocks(text, blocks - OTHERS)
