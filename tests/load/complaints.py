"""What is wrong with a job file, in the words that a person reads."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.load import load_job


def complain(text: str) -> list[str]:
    """The messages that refuse this job file."""
    with pytest.raises(Invalid) as caught:
        load_job(text, "job.yaml")
    return [problem.message for problem in caught.value.problems]
