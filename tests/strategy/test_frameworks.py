"""What holds for every framework: no accepted strategy is lost, and every refusal helps."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobgen.model.job import JobSpec
from jobgen.model.parallel import Parallel
from jobgen.model.train import Offload, Train
from jobgen.model.trained import ModelShape
from jobgen.shell import Raw, quote_expandable
from jobgen.strategy import RankLayout, check_train, decide
from jobgen.strategy.frameworks import MODULES, FrameworkRequest, configure
from jobgen.strategy.model_sizes import find_architecture, read_sizes
from jobgen.strategy.spec import TRAITS
from tests.strategy.made import jobs, worlds

FORMS = {"strategy": Parallel, "offload": Offload, "model": ModelShape}
more: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "precision": st.sampled_from(["fp32", "bf16", "fp16"]),
        "activation_checkpointing": st.sampled_from(["none", "selective", "full"]),
        "gradient_clipping": st.sampled_from([0.0, 1.0]),
        "wrap": st.sampled_from([["Block"], ["model.Block"]]),
    },
)


@pytest.mark.parametrize("framework", [*MODULES, "none"])
@given(jobs, worlds, more)
@settings(max_examples=60)
def test_whatever_is_accepted_is_configured_or_refused_with_a_way_out(
    framework: str, keys: dict[str, Any], world: RankLayout, others: dict[str, Any]
) -> None:
    kinds = [name for name, trait in TRAITS.items() if framework in trait.frameworks]
    kind = keys["strategy"]
    if kind["type"] not in kinds:
        kind = {"type": kinds[world.ranks % len(kinds)]}
    train = Train(**{**keys, **others, "strategy": Parallel(**kind), "framework": framework})
    known = read_sizes(train, {})[0]
    if list(check_train(train, known, world)):
        return
    decided = decide(train, known, world, launcher="")
    arch = find_architecture(train, {})
    given = configure(
        FrameworkRequest(decided, world.nodes, world.ranks_per_node, gpus=world.gpus, model=arch)
    )
    for fault in given.faults:
        first, *rest = fault.path
        assert first in Train.keys
        assert set(rest) <= set(FORMS[first].keys if rest else ())
        assert fault.message
        assert fault.hint
        assert re.fullmatch(r"J23\d|J252", fault.code)
    assert len({fault.path for fault in given.faults}) == len(given.faults)
    for name, setting in given.env.items():
        assert re.fullmatch(r"[A-Z][A-Z0-9_]*", name)
        assert quote_expandable(setting.value)
        assert setting.why
    for file in given.files:
        if file.path.endswith(".json"):
            json.loads(file.content)
    assert all(isinstance(word, str) for word in given.args)
    assert all(
        word.startswith('"$JOBGEN_') or "=" in word for word in given.args if isinstance(word, Raw)
    )
    assert all(setting.why for setting in given.chosen.values())
    assert all(note.message and note.path[0] in JobSpec.keys for note in given.notes)
