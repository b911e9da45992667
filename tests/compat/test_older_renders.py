"""The examples of older commits render as then, or it is known which change made the difference.

``make test`` takes a few commits; ``pytest --full`` takes 50. Without a whole clone there is no
history to compare with.
"""

from __future__ import annotations

import pytest

from tests.compat import older_renders

WHOLE = pytest.mark.skipif(not older_renders.has_history(), reason="needs a whole clone")


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, pytest.param(50, marks=pytest.mark.exhaustive)])
@WHOLE
def test_every_difference_from_an_older_render_is_explained(number: int) -> None:
    jobs, every = older_renders.explain_all(older_renders.choose_commits(number))
    assert jobs >= number
    assert not [line for line in every if not line.reason]


@WHOLE
def test_a_line_that_nobody_changed_is_not_explained() -> None:
    line = older_renders.Difference("0" * 40, "job.yaml/job.sbatch", "+", "rm -rf /somewhere")
    assert older_renders.Explainer().explain(line).reason == ""
