"""What is proposed for a GPU that the catalogue does not have."""

from __future__ import annotations

import pytest

from jobgen.model.form import Refusal
from jobgen.model.node_hardware import check_gpu


@pytest.mark.parametrize(
    ("word", "proposed"),
    [
        ("A6000", "did you mean RTX-A6000-48GB?"),
        ("h200", "did you mean H200"),
        ("A100-SMX4-80GB", "did you mean 'A100-SXM4-80GB'?"),
        ("GTX-9999", "for example "),
    ],
)
def test_part_of_a_name_proposes_the_gpus_that_have_it(word: str, proposed: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_gpu(word)
    (fault,) = refused.value.faults
    assert fault.hint.startswith(proposed)
