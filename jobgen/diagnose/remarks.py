"""What is worth a look in the logs of a job that did not fail."""

from __future__ import annotations

import re

from jobgen.diagnose.evidence import Evidence
from jobgen.diagnose.log_lines import read_streams

_NAN = re.compile(
    r"\b(?:loss|grad_norm|lm loss|perplexity)\b['\"]?\s*[:= ]\s*['\"]?(?:nan|-?inf)\b",
    re.IGNORECASE,
)


def find_remark(evidence: Evidence) -> str:
    """The one remark on a job that ended well, with its line; empty if there is none.

    >>> from jobgen.diagnose.log_lines import LogText
    >>> find_remark(Evidence(logs=(LogText("train.log", "step 1 loss 0.5\\nstep 2 loss nan\\n"),)))
    'the loss is not a number from train.log:2 on: step 2 loss nan'
    """
    for stream in read_streams(evidence.logs):
        for line in stream.lines:
            if _NAN.search(line.text):
                place = f"{stream.path}:{line.number}" if line.number else stream.path
                return f"the loss is not a number from {place} on: {line.text.strip()[:120]}"
    return ""
