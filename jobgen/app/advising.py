"""What the planner says of a job: its memory, the other strategies, more nodes, other clusters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jobgen.app.prepare import PreparedJob, prepare_each
from jobgen.app.world import World
from jobgen.errors import Missing
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.calibrating import ClusterMeasurements
    from jobgen.model.cluster import Price
    from jobgen.strategy.choice.offer import Advice, Offer, StrategyOption
    from jobgen.strategy.choice.setups import Ask


NO_TRAIN = "the job has no train: section"


class Advised(NamedTuple):
    """The planner's answer, or why there is none."""

    advice: Advice | None
    missing: str = ""
    """What it would have to know; empty where the job has no ``train`` at all."""
    known: ClusterMeasurements | None = None
    """What was measured on this cluster."""
    calibrated: bool = False
    """Whether it was used."""


def advise_job(
    ready: PreparedJob,
    nodes: Sequence[int] = (),
    *,
    why: bool = False,
    known: ClusterMeasurements | None = None,
    calibrated: bool = False,
) -> Advised:
    """The answer for this job; with ``nodes`` how it scales, with ``why`` all formulas.

    ``known`` is what was measured; ``calibrated`` corrects the estimates by it.
    """
    if ready.planner_request is None:
        return Advised(None)
    request = ready.planner_request
    ask, missing, auto = request.ask, request.missing, request.auto
    if ask is None:
        return Advised(None, missing, known)
    if calibrated and known:
        ask = known.calibrate(ask)
    from jobgen.strategy.choice.advise import advise

    found = advise(ask, auto=auto)
    shown = found.first_option
    if shown is not None:
        from jobgen.strategy.choice.faster import add_faster, find_assumed_rates

        if shown.verdict in {"no", "tight"}:
            found = _add_help(found, shown, ask, auto=auto)
        else:
            found = add_faster(found, ask, auto=auto)
        found = found._replace(assumed_rates=find_assumed_rates(shown, ask, auto=auto))
    if nodes:
        from jobgen.strategy.choice.advise import describe_assumed_network
        from jobgen.strategy.choice.ladder import change_nodes
        from jobgen.strategy.choice.scale import scale

        network = describe_assumed_network(change_nodes(ask, max(nodes)))
        found = found._replace(scale=scale(ask, nodes, auto=auto), scale_network=network)
    advice = _explained(found) if why else found
    return Advised(advice, "", known, calibrated)


def _add_help(found: Advice, shown: StrategyOption, ask: Ask, *, auto: bool) -> Advice:
    """With what to change: to fit, or where that is tight, to have room to spare."""
    from jobgen.strategy.choice.levers import find_help, find_room_to_spare

    if shown.verdict == "tight":
        return found._replace(levers=find_room_to_spare(shown, ask, auto=auto))
    return found._replace(**find_help(shown, ask, auto=auto)._asdict())


def _explained(found: Advice) -> Advice:
    """With each component's formula and source."""
    from jobgen.strategy.memory.memory_formulas import explain_memory

    def explain(option: StrategyOption) -> StrategyOption:
        return option._replace(memory=explain_memory(option.setup, option.memory, found.factor))

    options = tuple(map(explain, found.options))
    return found._replace(options=options, chosen=found.chosen and explain(found.chosen))


def describe_count(ready: PreparedJob) -> str:
    """A sentence on the model's parameters: as transformers builds it, beside the planner's count.

    Raises Missing where it cannot be built here.
    """
    import json

    from jobgen.strategy.model_sizes import read_architecture
    from jobgen.strategy.shapes import build_model, find_config
    from jobgen.strategy.shapes.exact import NotBuilt, count_exactly

    train = ready.job.value.train
    name = train.model if train else None
    if train is None or not isinstance(name, str):
        raise Missing("--exact builds a model by its config.json or Hub id: train.model names none")
    arch, doubt = read_architecture(train, ready.facts.texts)
    content = ready.facts.texts.get(name)
    said = json.loads(content) if content is not None else find_config(name)
    if arch is None or not isinstance(said, dict):
        raise Missing(doubt)
    try:
        found = count_exactly(said)
    except NotBuilt as error:
        raise Missing(str(error)) from error
    own = build_model(arch).count
    beside = "the planner counts the same" if own == found else f"the planner counts {own:,}"
    return f"{found:,} parameters, built by transformers on the meta device; {beside}"


class Compared(NamedTuple):
    """Clusters side by side: an offer of each, and the tokens that every offer is for."""

    offers: tuple[Offer, ...]
    tokens: float
    unknown: dict[str, str]
    """Cluster → why nothing is known of it."""


def compare_clusters(
    world: World, job: Path, clusters: Sequence[str], sets: Sequence[str] = ()
) -> Compared:
    """A job's work on each cluster, once for each profile: as many tokens as the first one does in
    the job's time.

    Raises Invalid and Missing like ``prepare``.
    """
    from jobgen.strategy.choice.advise import choose_option

    offers: list[Offer] = []
    unknown, tokens = {}, 0.0
    profiles = set()
    for name, ready in zip(clusters, prepare_each(world, job, clusters, sets), strict=True):
        if ready.cluster_file.label in profiles:
            continue
        profiles.add(ready.cluster_file.label)
        request = ready.planner_request
        if request is None or request.ask is None:
            unknown[name] = request.missing if request else NO_TRAIN
            continue
        shown = choose_option(request.ask, auto=request.auto)
        if shown is None:
            unknown[name] = NO_TRAIN
            continue
        speed = shown.step.rate if shown.step else 0.0
        size = ready.plan.shape
        tokens = tokens or speed * shown.setup.mesh.world * size.seconds
        hours = tokens / speed / 3600 if speed else 0.0
        offers.append(_make_offer(name, shown, hours, ready.profile.value.price))
    return Compared(tuple(offers), tokens, unknown)


def _make_offer(cluster: str, option: StrategyOption, hours: float, price: Price | None) -> Offer:
    """So many GPU-hours on a cluster, with what they cost where the profile has a price."""
    from jobgen.strategy.choice.offer import Offer

    if price is None:
        return Offer(cluster, option, hours)
    amount = hours * price.gpu_hour if hours else None
    owned = price.bought * option.setup.mesh.world if price.bought else None
    return Offer(cluster, option, hours, amount, price.currency, owned)
