"""How ranks are divided: what is decided, what is refused, and what its hints are worth."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobgen.model.parallel import Parallel
from jobgen.model.train import FRAMEWORKS, Offload, Train
from jobgen.strategy import ModelSizes, RankLayout, TrainDiagnostic, check_train, decide
from jobgen.strategy.frameworks import FrameworkRequest, configure
from jobgen.strategy.mesh import build_mesh
from jobgen.strategy.model_sizes import read_sizes
from jobgen.strategy.spec import TRAITS, Mesh
from tests.strategy.hints import asked, change_keys, list_paths, read_changes
from tests.strategy.made import BATCH, EXPERTS, jobs, worlds

LLAMA = ModelSizes(layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336)
TWO = RankLayout(2, 8, "infiniband")


def found(
    world: RankLayout | None = TWO, known: ModelSizes = LLAMA, **keys: Any
) -> list[TrainDiagnostic]:
    return list(check_train(asked(**keys), known, world))


def one(world: RankLayout | None = TWO, known: ModelSizes = LLAMA, **keys: Any) -> TrainDiagnostic:
    (fault,) = found(world, known, **keys)
    return fault


@given(jobs, worlds)
def test_what_is_accepted_divides_the_ranks_and_the_batch_exactly(
    keys: dict[str, Any], world: RankLayout
) -> None:
    train = asked(**keys)
    known = read_sizes(train, {})[0]
    if list(check_train(train, known, world, launcher="torchrun")):
        return
    decided = decide(train, known, world, launcher="torchrun")
    divided, batch = decided.mesh, decided.batch
    assert divided.world == world.ranks
    assert world.ranks // divided.pp % divided.expert_parts == 0
    assert train.dp in {None, divided.data}
    if not isinstance(decided.settings.reshard_after_forward, bool):
        assert divided.shard % decided.settings.reshard_after_forward == 0
    if batch:
        assert batch.micro * batch.accumulation * divided.data == batch.total
        assert train.global_batch in {None, batch.total}
        assert train.micro_batch in {None, batch.micro}
        assert train.gradient_accumulation in {None, batch.accumulation}
    else:
        assert not {"micro_batch", "gradient_accumulation", "global_batch"} & set(keys)
    for degree, size in (("tp", "heads"), ("pp", "layers"), ("ep", "experts")):
        assert (getattr(known, size) or 0) % getattr(divided, degree) == 0


FORMS = {"strategy": Parallel, "offload": Offload}


@given(jobs, worlds | st.none())
def test_every_refusal_names_a_key_of_train_once_and_has_a_hint(
    keys: dict[str, Any], world: RankLayout | None
) -> None:
    train = asked(**keys)
    refused = list(check_train(train, read_sizes(train, {})[0], world, launcher="torchrun"))
    assert len({fault.path for fault in refused}) == len(refused)
    for fault in refused:
        first, *rest = fault.path
        assert first in Train.keys
        assert len(rest) <= 1
        assert set(rest) <= set(FORMS[first].keys if rest else ())
        assert fault.message
        assert fault.hint
        assert re.fullmatch(r"J23\d", fault.code)


@given(jobs, worlds)
@settings(max_examples=300)
def test_what_a_hint_of_the_mesh_proposes_is_accepted(
    keys: dict[str, Any], world: RankLayout
) -> None:
    train = asked(**keys)
    before = list_paths(keys, world)
    for fault in check_train(train, read_sizes(train, {})[0], world, launcher="torchrun"):
        if fault.code in {"J138", "J230", "J231", "J233", "J234"}:
            for change in read_changes(fault.hint):
                left = list_paths(change_keys(keys, change), world)
                assert left <= before - {fault.path}, (fault.message, fault.hint)


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [
        ("ddp", Mesh(16, 1)),
        ("fsdp-no-shard", Mesh(16, 1)),
        ("fsdp", Mesh(1, 16)),
        ("fsdp-hybrid", Mesh(2, 8)),
        ({"type": "fsdp-hybrid", "shard": 4}, Mesh(4, 4)),
        ({"type": "fsdp2", "shard": 2}, Mesh(8, 2)),
        ("zero3", Mesh(1, 16)),
        ("3d", Mesh(16, 1)),
    ],
)
def test_data_parallel_ranks_are_copies_and_shards(strategy: Any, wanted: Mesh) -> None:
    assert build_mesh(asked(strategy=strategy), TWO) == wanted


def test_what_the_degrees_leave_is_data_parallel() -> None:
    assert build_mesh(asked(tp=4, pp=2), TWO) == Mesh(2, 1, tp=4, pp=2)
    assert found(tp=4, pp=2, dp=2) == []
    fault = one(tp=4, pp=2, dp=4)
    assert (fault.code, fault.path) == ("J231", ("dp",))
    assert "set dp: 2" in fault.hint


def test_a_degree_that_divides_no_heads_gets_the_nearest_that_do() -> None:
    fault = one(tp=3)
    assert (fault.code, fault.path, fault.hint) == ("J233", ("tp",), "set tp: 2 or 4")


def test_a_hint_stays_inside_the_node_and_the_ranks() -> None:
    fault = one(RankLayout(3, 8, "infiniband"), ModelSizes(heads=12), tp=5)
    assert fault.hint == "set tp: 4 or 2"


def test_without_a_world_a_hint_keeps_to_powers_of_two() -> None:
    assert one(None, ModelSizes(layers=8, heads=16, experts=12), ep=5).hint == "set ep: 4 or 2"
    assert one(None, ModelSizes(layers=9, heads=16), pp=2).hint == "set pp: 3 or 9"


@pytest.mark.parametrize(
    ("keys", "hint"),
    [
        ({"tp": 3, "pp": 5}, "set tp: 2 and pp: 4"),
        ({"tp": 3, "dp": 5}, "set tp: 2 and dp: 8"),
        ({"cp": 3, "seq_len": 4096}, "set cp: 2 or 4"),
        ({"tp": 3, "global_batch": 6}, "set tp: 8"),
        ({"tp": 3, "global_batch": 3}, "set tp: 2 and global_batch: 8"),
        ({"tp": 3, "seq_len": 4098, "framework": "torchtitan"}, "set tp: 2"),
        ({"tp": 8, "pp": 4}, "set tp: 4 or 2"),
        ({"cp": 4, "seq_len": 4100}, "set seq_len: 4104 or 4096, or cp: 2"),
    ],
)
def test_a_hint_goes_with_the_other_keys(keys: dict[str, Any], hint: str) -> None:
    assert {fault.hint for fault in found(**keys)} == {hint}


def test_without_a_world_only_what_no_world_mends_is_said() -> None:
    assert found(None, tp=4, pp=2) == []
    assert one(None, pp=5).path == ("pp",)


def test_context_parallel_takes_two_pieces_of_the_sequence_a_rank() -> None:
    assert found(cp=4, seq_len=4096) == []
    fault = one(cp=4, seq_len=4100)
    assert fault.path == ("cp",)
    assert "seq_len: 4104" in fault.hint


@pytest.mark.parametrize("fabric", ["ethernet", "none"])
def test_tensor_parallel_across_nodes_needs_a_fast_network(fabric: str) -> None:
    wide = ModelSizes(layers=32, heads=64, kv_heads=64)
    assert found(TWO, wide, tp=16) == []
    fault = one(RankLayout(2, 8, fabric), wide, tp=16)
    assert (fault.code, fault.path) == ("J234", ("tp",))
    assert "set tp: 8" in fault.hint


def test_a_tensor_group_that_straddles_nodes_is_refused_on_any_network() -> None:
    fault = one(RankLayout(2, 6, "infiniband"), ModelSizes(heads=12), tp=4)
    assert fault.code == "J234"
    assert "set tp: 3 or 2" in fault.hint


def test_reshard_over_all_that_share_is_no_part_of_them() -> None:
    kind = {"type": "fsdp2", "reshard_after_forward": 8}
    fault = one(RankLayout(1, 8), strategy=kind)
    assert fault.path == ("strategy", "reshard_after_forward")
    assert fault.hint == "set reshard_after_forward: 4 or 2"


@pytest.mark.parametrize(
    ("strategy", "keys", "wanted"),
    [
        ("zero3", {"pp": 2}, "set strategy: 3d"),
        ("fsdp", {"tp": 2}, "fsdp2"),
        ("ddp", {"tp": 2}, "3d"),
    ],
)
def test_a_strategy_without_the_degree_names_one_that_has_it(
    strategy: str, keys: dict[str, int], wanted: str
) -> None:
    fault = one(strategy=strategy, **keys)
    assert fault.code == "J232"
    assert wanted in fault.hint


@pytest.mark.parametrize("framework", [None, *FRAMEWORKS])
@pytest.mark.parametrize("axis", ["tp", "pp", "cp", "ep"])
def test_the_strategy_that_a_hint_names_is_accepted(framework: str | None, axis: str) -> None:
    launcher = "accelerate" if framework == "accelerate" else "torchrun"
    world = RankLayout(2, 4, "infiniband")
    keys: dict[str, Any] = {"model": EXPERTS, "seq_len": 128, axis: 2, **BATCH}
    for name, trait in TRAITS.items():
        if axis in trait.axes or (framework and framework not in trait.frameworks):
            continue
        train = asked(strategy=name, framework=framework, **keys)
        known = read_sizes(train, {})[0]
        (fault,) = check_train(train, known, world, launcher=launcher)
        there = fault.hint.partition("or set ")[2]
        changed = train.replace(**dict(re.findall(r"(strategy|framework): (\S+)", there)))
        assert list(check_train(changed, known, world, launcher=launcher)) == []
        decided = decide(changed, known, world, launcher=launcher)
        given_ = configure(FrameworkRequest(decided, 2, 4))
        assert given_.faults == (), (name, fault.hint)


def test_torchtitan_shards_where_experts_are_divided() -> None:
    experts = LLAMA._replace(experts=8)
    fault = one(known=experts, framework="torchtitan", strategy="ddp", ep=2)
    assert fault.hint == "remove ep, or set strategy: fsdp2"
    assert fault.message.endswith("does not work with DDP: every rank holds every expert")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"ep": 2}, ["ep 2 divides experts, but train.model has none"]),
        ({"tp": 2, "etp": 1}, ["etp 1 divides experts, but train.model has none"]),
        ({"tp": 4, "ep": 3, "etp": 2}, ["ep 3 divides", "etp 2 divides"]),
        ({"tp": 4}, []),
        ({"ep": 1}, []),
    ],
)
def test_a_model_without_experts_has_none_to_divide(keys: dict[str, int], said: list[str]) -> None:
    faults = found(known=LLAMA._replace(experts=0), **keys)
    assert [fault.message[: len(words)] for fault, words in zip(faults, said, strict=True)] == said
    assert {fault.code for fault in faults} <= {"J233"}
    for name, hint in (("", "add experts to train.model, or remove "), ("gpt2", "remove ")):
        again = found(known=LLAMA._replace(name=name, experts=0), **keys)
        assert all(fault.hint == f"{hint}{fault.path[0]}" for fault in again)
    assert not found(**{**keys, "ep": 4} if "ep" in keys else keys), "unknown: it may have some"


def test_without_ep_experts_are_divided_like_the_rest() -> None:
    for framework in ("torchtitan", "megatron"):
        train = asked(strategy="3d", framework=framework, tp=4)
        assert build_mesh(train, TWO).expert_tp == 4
        assert build_mesh(train, TWO).list_degrees() == [("tp", 4)]


@pytest.mark.parametrize(("tp", "etp"), [(1, 2), (4, 8), (8, 3)])
def test_an_expert_is_shared_by_ranks_of_tp(tp: int, etp: int) -> None:
    assert {(fault.code, fault.path) for fault in found(tp=tp, etp=etp)} >= {("J231", ("etp",))}
    assert not found(tp=tp, etp=1)
