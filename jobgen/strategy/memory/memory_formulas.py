"""Why each component of the memory is as large as it is: a formula with numbers, and its source."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobgen.strategy.estimate import Component, GpuMemory
from jobgen.strategy.memory import count_in_flight, find_peak
from jobgen.strategy.memory.activations import compute_kept
from jobgen.strategy.memory.formula_terms import Factors, FormulaCase, Term, Why
from jobgen.strategy.memory.outside import (
    CHANNEL,
    CONTEXT,
    EAGER_CONTEXT,
    KERNELS,
    count_communicators,
    get_cache_factor,
)
from jobgen.strategy.memory.state_formulas import build_state
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS


def explain_memory(setup: Setup, memory: GpuMemory, factor: float = 1.0) -> GpuMemory:
    """A GPU's memory, each component with its formula and its source. ``factor`` is what measured
    runs have multiplied it by."""
    estimated = explain_parts(setup, memory.scale(1 / factor))
    found = {name: why._replace(factor=factor) for name, why in estimated.items()}
    said = (_said(component, found.get(component.name)) for component in memory.components)
    return memory._replace(components=tuple(said))


def explain_parts(setup: Setup, memory: GpuMemory) -> dict[str, Why]:
    """Component → why it is as large as it is. Those of no bytes are left out."""
    peak = find_peak(setup)
    micro = compute_kept(setup) if setup.measured is None else None
    case = FormulaCase(setup, peak.stage, peak.parts, peak.idle, micro, 0.0)
    return {
        component.name: _BUILDERS[component.name](case._replace(size=component.bytes))
        for component in memory.components
        if component.bytes
    }


def _said(component: Component, why: Why | None) -> Component:
    return component._replace(formula=why.formula, source=why.source) if why else component


_GATHERED = {
    "ddp": ("weight copies cached by autocast", "torch 2.13, autocast_mode.cpp, cached casts"),
    "3d": ("weight copies cached by autocast", "torch 2.13, autocast_mode.cpp, cached casts"),
    "fsdp": ("layers gathered at the same time, and the root", "torch 2.13, distributed/fsdp"),
    "fsdp2": (
        "layers gathered at the same time, and the root",
        "torch 2.13, distributed/fsdp/_fully_shard",
    ),
    "zero": ("live parameters", "DeepSpeed, runtime/zero/config.py, max_live_parameters"),
}


def _gathered(case: FormulaCase) -> Why:
    words, source = _GATHERED[TRAITS[case.setup.strategy].family]
    if case.parts.moment == "load":
        words, source = "the whole model in 16 bits", "torch 2.13, FSDP's full state dict"
    return _elements(words, case.size, case.setup.recipe.compute, source)


_COPIED = "torch 2.13, nn/parallel/distributed.py, gradient_as_bucket_view"
_RECEIVED = "torch 2.13, distributed/pipelining/stage.py"
_BUCKETS = {
    "fsdp": ("unsharded gradients of the largest unit", "torch 2.13, distributed/fsdp"),
    "fsdp2": (
        "unsharded gradients of the largest unit",
        "torch 2.13, distributed/fsdp/_fully_shard",
    ),
    "ddp": ("copies of the gradients", _COPIED),
    "3d": ("copies of the gradients", _COPIED),
    "zero": ("gradient buckets", "DeepSpeed, runtime/zero/config.py, reduce_bucket_size"),
}


def _buckets(case: FormulaCase) -> Why:
    recipe = case.setup.recipe
    if case.setup.measured is not None and case.setup.mesh.pp > 1:
        words = "what a stage receives of every micro-batch, and buckets of the strategy"
        return _elements(words, case.size, recipe.compute, _RECEIVED)
    words, source = _BUCKETS[TRAITS[case.setup.strategy].family]
    width = recipe.grads if source is _COPIED else recipe.reduce
    return _elements(words, case.size, width, source)


def _elements(words: str, size: float, width: float, source: str) -> Why:
    return Why(words, (Term(((width, "B"), (size / width, "elements"))),), source)


def _measured(case: FormulaCase) -> Why:
    """What a trace on fake tensors has shown."""
    measured = case.setup.measured
    source = f"torch {measured.torch if measured else ''}, MemTracker"
    term = Term(((case.size, "B measured"),))
    return Why("the model's own step on fake tensors", (term,), source)


_KEPT = {
    "none": "tensors saved by autograd in each layer",
    "selective": "tensors of each layer that are not recomputed",
    "full": "input of each layer",
}
_COUNTED = "transformers 5 and torch 2.13, saved tensors counted; arXiv:2205.05198, section 4"


def _activations(case: FormulaCase) -> Why:
    if case.micro is None:
        return _measured(case)
    setup, micro, tokens = case.setup, case.micro, float(max(1, case.setup.tokens))
    flight = count_in_flight(setup, case.stage)
    one = micro.layer * flight
    layers = min(case.stage.layers, max(1.0, case.size * (1 + 1e-9) // one))
    factors: Factors = ((layers, "layers"), (tokens, "tokens"), (micro.layer / tokens, "B"))
    if flight != 1:
        factors = (*factors, (flight, "micro-batches"))
    terms = [Term(factors)]
    rest = case.size - terms[0].bytes
    if rest > 1e-6 * case.size:
        terms.append(Term(((tokens, "tokens"), (rest / tokens, "B at the end"))))
    return Why(_KEPT[setup.recompute], tuple(terms), _COUNTED)


_LOSS = {
    "plain": ("log-softmax, its gradient and the logits', in fp32", "torch 2.13, cross_entropy"),
    "held": (
        "logits, log-softmax, its gradient and the logits', in fp32",
        "torch 2.13, cross_entropy; transformers 4.45, models/llama",
    ),
    "narrow": ("logits, log-softmax and two gradients", "torch 2.13, cross_entropy"),
    "in-place": (
        "logits, and an fp32 copy that becomes their gradient",
        "Megatron-LM, core/tensor_parallel/cross_entropy.py",
    ),
    "compiled": ("logits and their gradient", "torch 2.13, torch.compile"),
    "chunked": ("logits, and an eighth of the loss's temporaries", "torchtune, modules/loss"),
    "held-chunks": ("logits and log-softmax in fp32, gradients of 128 tokens", "litgpt/utils.py"),
    "fused": ("nothing", "Liger-Kernel, ops/fused_linear_cross_entropy.py"),
}


def _logits(case: FormulaCase) -> Why:
    setup = case.setup
    words, source = _LOSS[setup.loss]
    count = float(setup.tokens), float(setup.model.sizes.vocab)
    tp = float(setup.mesh.tp)
    each = case.size * tp / (count[0] * count[1])
    factors = ((each, "B"), (count[0], "tokens"), (count[1], "vocabulary entries"))
    return Why(words, (Term(factors, ((tp, "ranks"),)),), source)


def _temporary(case: FormulaCase) -> Why:
    if case.parts.moment == "step":
        return _elements("optimizer copies", case.size, 4.0, "torch 2.13, optim/adamw.py")
    if case.setup.measured is not None:
        return _measured(case)
    tokens = float(max(1, case.setup.tokens))
    words = "backward pass of one layer"
    if case.setup.recompute != "none":
        words += ", recomputed"
    return Why(words, (Term(((tokens, "tokens"), (case.size / tokens, "B"))),), _COUNTED)


def _context(case: FormulaCase) -> Why:
    count = count_communicators(case.setup)
    terms = [Term(((CONTEXT if case.setup.lazy_modules else EAGER_CONTEXT, "B of CUDA"),))]
    if count:
        terms.append(Term(((KERNELS, "B of NCCL's kernels"),)))
        many = "communicator" if count == 1 else "communicators"
        each = CHANNEL * case.setup.channels
        terms.append(Term(((float(count), many), (each, "B"))))
    source = "stas00/ml-engineering, debug/nvidia-debug.md; NCCL, src/init.cc and src/include"
    return Why("CUDA and NCCL", tuple(terms), source)


def _cache(case: FormulaCase) -> Why:
    terms = [Term(((get_cache_factor(case.setup), ""), (case.parts.allocated, "B allocated")))]
    rest = case.size - terms[0].bytes
    if idle := min(case.idle, rest):
        terms.append(Term(((idle, "B freed, in the pools of other streams"),)))
        rest -= idle
    if rest > 1e-6 * case.size:
        terms.append(Term(((rest, "B of partly filled blocks"),)))
    source = "torch 2.13, c10/cuda/CUDACachingAllocator.cpp"
    return Why("partly filled allocator blocks", tuple(terms), source)


_BUILDERS: Mapping[str, Callable[[FormulaCase], Why]] = {
    "params": build_state("parameters", 3, lambda setup: setup.recipe.params),
    "grads": build_state("gradients", 2, lambda setup: setup.recipe.grads),
    "master": build_state("fp32 copies of the parameters", 1, lambda setup: setup.recipe.master),
    "moments": build_state("optimizer moments", 1, lambda setup: setup.recipe.moments),
    "gathered": _gathered,
    "buckets": _buckets,
    "activations": _activations,
    "logits": _logits,
    "temporary": _temporary,
    "cache": _cache,
    "context": _context,
}
"""Component → how its formula is built."""
