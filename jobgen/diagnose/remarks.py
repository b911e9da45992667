"""What is worth a look in the logs of a job that did not fail."""

from __future__ import annotations

import re

from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.log_lines import read_streams

_NAN = re.compile(
    r"\b(?:loss|grad_norm|lm loss|perplexity)\b['\"]?\s*[:= ]\s*['\"]?(?:nan|-?inf)\b",
    re.IGNORECASE,
)


LATE = 60.0
"""Seconds after the others at which a rank's start is worth a remark; clocks differ by less."""


def find_remark(evidence: Evidence) -> str:
    """The one remark on a job that ended well, with its line; empty if there is none.

    >>> from jobgen.diagnose.log_lines import LogText
    >>> find_remark(Evidence(logs=(LogText("train.log", "step 1 loss 0.5\\nstep 2 loss nan\\n"),)))
    'the loss is not a number from train.log:2 on: step 2 loss nan'
    """
    return _find_nan(evidence) or _find_late_rank(evidence)


def _find_nan(evidence: Evidence) -> str:
    for stream in read_streams(evidence.logs):
        for line in stream.lines:
            if _NAN.search(line.text):
                place = f"{stream.path}:{line.number}" if line.number else stream.path
                return f"the loss is not a number from {place} on: {line.text.strip()[:120]}"
    return ""


def _find_late_rank(evidence: Evidence) -> str:
    """The rank whose program started long after that of most others, which waited for it."""
    if not evidence.starts:
        return ""
    last, usual = evidence.starts[-1], evidence.starts[(len(evidence.starts) - 1) // 2]
    seconds = last.time - usual.time
    if seconds < LATE:
        return ""
    return f"rank {last.rank} on {last.node} started {seconds:.0f} s later than most ranks"
