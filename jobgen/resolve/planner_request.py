"""What the planner is asked about a job, and what ``strategy: auto`` stands for.

Everything here needs the sizes of the model and a GPU of the catalogue; without them nothing is
said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, Invalid, raise_errors
from jobgen.model.plan import Estimate, Shape
from jobgen.model.trained import ModelShape, is_function
from jobgen.named_tuple import NamedTuple
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.measured import UNMEASURED, advise_measuring, find_measured
from jobgen.resolve.quantized import has_other_quantizer
from jobgen.resolve.torch_settings import has_expandable_segments, rounds_to_tf32

if TYPE_CHECKING:
    from jobgen.model.train import Train
    from jobgen.resolve.run_values import AdoptedTrain
    from jobgen.strategy import RankLayout, TrainDiagnostic
    from jobgen.strategy.choice.offer import StrategyOption
    from jobgen.strategy.choice.setups import Ask

MEASURE_MODEL = "to measure the model, set model: FILE.py:NAME of a function that builds it"


class PlannerRequest(NamedTuple):
    """What the planner is asked about a job that has ``train``."""

    ask: Ask | None
    """None if the model, its sizes or the GPU are not known. With ``auto`` it names plain DDP."""
    missing: str = ""
    """What the planner would have to know."""
    auto: bool = False
    """Whether the planner chooses the strategy."""
    lacks_gpu: bool = False
    """Whether it is the GPU that is missing, not the model's sizes."""
    doubt: str = ""
    """Why the sizes that the planner counts with may not be the model's."""


class ResolvedTrain(NamedTuple):
    """What ``train`` comes to; if ``auto`` chose it, why, and the estimate that decided it."""

    train: Train
    why: str = ""
    estimate: Estimate | None = None


def describe_world(look: Inputs, size: Shape) -> RankLayout:
    """The ranks, and the network between their nodes."""
    from jobgen.strategy import RankLayout

    fabric = look.cluster.network.fabric
    return RankLayout(size.nodes, size.ranks_per_node, fabric, gpus=size.gpus_per_node > 0)


def build_request(
    look: Inputs, size: Shape, launcher: str, adopted: AdoptedTrain
) -> PlannerRequest:
    """The request; or what the planner would have to know, in words."""
    from jobgen.strategy.measured_model import build_measured
    from jobgen.strategy.model_sizes import read_architecture, read_sizes
    from jobgen.strategy.shapes import build_model

    train = adopted.train
    auto = train.strategy.type == "auto"
    train = train.replace(strategy="ddp") if auto else train
    measured, missing = find_measured(look, train)
    doubt = ""
    if measured is not None:
        model = build_measured(measured)
    elif is_function(train.model):
        return PlannerRequest(None, missing.text, auto)
    else:
        arch, doubt = read_architecture(train, look.facts.texts)
        if arch is None or not arch.vocab:
            return PlannerRequest(None, doubt, auto, doubt=doubt)
        model = build_model(arch)
    if not size.gpus_per_node:
        return PlannerRequest(None, "the job has no GPUs", auto)
    from jobgen.strategy.speed.machine_model import read_machine

    found = read_machine(look.cluster)
    if found is None:
        lacking = f"cluster {look.cluster.name} sets no nodes.gpu"
        return PlannerRequest(None, lacking, auto, lacks_gpu=True)
    from jobgen.strategy.choice.setups import VARIED, Ask

    found = found.split_gpus(size.ranks_per_gpu)
    known, _ = read_sizes(train, look.facts.texts)
    ranks = describe_world(look, size)
    written = adopted.keys.union(key for key in train.keys if look.has_written("train", key))
    fixed = written.intersection(VARIED)
    words = tuple(word.text for each in look.spec.programs for word in each.program.words)
    ask = Ask(train, model, known, ranks, found, launcher, fixed, written, measured, run_args=words)
    expandable = not size.amd and has_expandable_segments(look)
    network = look.cluster.network
    unset = tuple(key for key in ("nics", "nic_gbps") if getattr(network, key) is None)
    spare = _count_spare_gpus(look, size)
    ask = ask._replace(
        spare_gpus=spare,
        expandable=expandable,
        unset_network=unset,
        other_quantizer=has_other_quantizer(look),
        tf32=not size.amd and rounds_to_tf32(look, words),
    )
    if train.config is not None:
        from jobgen.strategy.dsconfig.user_config import read_batch

        config = look.facts.texts.get(train.config)
        ask = ask._replace(config=config, config_batch=read_batch(config, train.config))
    return PlannerRequest(ask, auto=auto, doubt=doubt)


def _count_spare_gpus(look: Inputs, size: Shape) -> int:
    """GPUs of each node that a larger ``gpus_per_node`` of the job would add, with a rank each."""
    one_job = look.group is None and size.packing is None and not look.entries
    if not one_job or size.ranks_per_node != size.gpus_per_node:
        return 0
    return look.cluster.nodes.gpus_per_node - size.gpus_per_node


def choose_strategy(
    look: Inputs, size: Shape, train: Train, request: PlannerRequest
) -> ResolvedTrain:
    """The job's ``train`` with the strategy that ``auto`` stands for.

    Raises Invalid where ``auto`` cannot be decided.
    """
    if not request.auto:
        return ResolvedTrain(train)
    if not size.gpus_per_node:
        simple = train.replace(strategy="ddp")
        return ResolvedTrain(simple, "auto: the simplest strategy, because the job uses no GPUs")
    if request.ask is None:
        raise Invalid(_diagnose_missing(look, train, request))
    from jobgen.strategy.choice import advise
    from jobgen.strategy.estimate import GIB

    best = advise.choose_first(request.ask) or advise.find_least(request.ask)
    if best is None:
        from jobgen.strategy import check_train, replace_auto

        simple = replace_auto(request.ask.train, request.ask.launcher)
        faults = check_train(
            simple, request.ask.sizes, request.ask.world, launcher=request.ask.launcher
        )
        raise_errors(Invalid, [diagnose_train(look, fault) for fault in faults])
        message = "train: no strategy supports this combination of ranks, batch and framework"
        hint = "name a strategy to see why it fails"
        raise Invalid(look.diagnose_job("J250", message, "train", "strategy", hint=hint))
    rung, found = best
    estimate = _summarize(found, request.ask)
    need = f"{estimate.needed / GIB:.1f} of {estimate.limit / GIB:.1f} GiB"
    unit = "GPU" if size.ranks_per_gpu == 1 else "rank"
    said = {"fits": "simplest strategy that fits", "tight": "simplest strategy that is tight"}
    verdict = said.get(found.verdict, "nothing fits; this one needs least GPU memory")
    why = f"auto: {verdict}, {need} per {unit}"
    if advise.is_over_host(found.memory, request.ask):
        why += f", but {found.note}"
    return ResolvedTrain(rung.train, why, estimate)


def _diagnose_missing(look: Inputs, train: Train, request: PlannerRequest) -> Diagnostic:
    """What ``auto`` would have to know, at the key that can say it."""
    from jobgen.strategy.model_sizes import find_unknown_model

    if is_function(train.model) and not request.lacks_gpu:
        message = f"train: strategy: auto needs the memory of the model: {request.missing}"
        hint = advise_measuring(look, train)
        return look.diagnose_job(UNMEASURED, message, "train", "model", hint=hint)
    if request.lacks_gpu:
        message = f"train: strategy: auto needs the GPU: {request.missing}"
        hint = "set nodes.gpu in the profile; or name a strategy"
        return look.diagnose_job("J250", message, "train", "strategy", hint=hint)
    unknown = find_unknown_model(train)
    if unknown is None:
        message = f"train: strategy: auto needs the sizes of the model: {request.missing}"
        sizes = "set train.model to a Hub id, a config.json or sizes"
        if has_model_file(look):
            sizes = MEASURE_MODEL
        elif isinstance(train.model, ModelShape) and train.model.vocab is None:
            sizes = "add vocab: 128256 (that of your tokenizer) to train.model"
        hint = f"{sizes}; or name a strategy"
        key = "strategy" if train.model is None else "model"
        return look.diagnose_job("J250", message, "train", key, hint=hint)
    message = (
        f"train.model: unknown sizes of '{unknown.name}', so that strategy: auto cannot choose"
    )
    hint = f"{unknown.hint}; or name a strategy"
    return look.diagnose_job("J250", message, "train", "model", hint=hint)


def diagnose_train(look: Inputs, fault: TrainDiagnostic) -> Diagnostic:
    """What cannot work, at its key, or at the nearest that the job writes."""
    message = f"train: {fault.message}"
    return look.diagnose_job(fault.code, message, "train", *fault.path, hint=fault.hint)


def has_model_file(look: Inputs) -> bool:
    """Whether ``train.model`` is a file that was read."""
    train = look.job.train
    return train is not None and isinstance(train.model, str) and train.model in look.facts.texts


def estimate_memory(chosen: ResolvedTrain, request: PlannerRequest) -> Estimate | None:
    """The memory that the strategy needs; None where it cannot be known."""
    if chosen.estimate is not None or request.ask is None:
        return chosen.estimate
    from jobgen.strategy.choice.advise import estimate_option
    from jobgen.strategy.choice.ladder import Rung

    rung = Rung(0, chosen.train.strategy.type, chosen.train)
    return _summarize(estimate_option(rung, request.ask, speed=False), request.ask)


def _summarize(found: StrategyOption, ask: Ask) -> Estimate:
    from jobgen.strategy.choice.advise import estimate_step

    memory = found.memory
    step = estimate_step(found.setup, ask) if found.verdict != "no" else None
    seconds = step.seconds if step else 0.0
    tokens = step.work if step and step.unit == "tokens" else 0.0
    return Estimate(
        memory.get_peak("allocated"),
        memory.get_peak("reserved"),
        memory.nvidia_smi,
        ask.machine.memory,
        found.verdict,
        found.note,
        memory.needed,
        seconds,
        tokens,
        ask.machine.gpu,
    )
