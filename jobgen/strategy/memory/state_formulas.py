"""Formulas of parameters, gradients and optimizer state, with their sources."""

from __future__ import annotations

from collections.abc import Callable
from math import isclose

from jobgen.strategy.memory.formula_terms import FormulaCase, Term, Why, format_number
from jobgen.strategy.memory.memory_states import (
    count_graded,
    count_shards,
    count_trained,
    count_whole_grads,
)
from jobgen.strategy.setup import Setup
from jobgen.strategy.spec import TRAITS
from jobgen.wording import join_words

_DIVIDED = {
    "ddp": "torch 2.13, nn/parallel/distributed.py",
    "3d": "Megatron-LM, arXiv:1909.08053 and arXiv:2104.04473",
    "fsdp": "torch 2.13, distributed/fsdp; ZeRO, arXiv:1910.02054, section 5",
    "fsdp2": "torch 2.13, distributed/fsdp/_fully_shard; ZeRO, arXiv:1910.02054, section 5",
    "zero": "ZeRO, arXiv:1910.02054, section 5",
}
"""Family → where it is said what it divides."""


def build_state(
    what: str, least: int, width: Callable[[Setup], float]
) -> Callable[[FormulaCase], Why]:
    """What builds the formula of a state that is divided from the stage ``least`` of ZeRO on."""

    def build(case: FormulaCase) -> Why:
        setup, trait = case.setup, TRAITS[case.setup.strategy]
        level = 3 if setup.strategy == "fsdp-grad-op" else trait.stage
        ranks = ((float(count_shards(setup)), "ranks"),) if level >= least else ()
        trained, frozen = count_trained(setup, case.stage)
        if what == "gradients" and setup.step_in_backward:
            trained = case.stage.largest
        terms = [Term(((width(setup), "B/parameter"), (trained, _counted(setup))), ranks)]
        if what == "parameters" and frozen:
            terms.append(Term(((frozen, "B frozen"),), ranks))
        if what == "gradients":
            terms = _divide_grads(case, terms[0])
        rest = case.size - sum(term.bytes for term in terms)
        if not isclose(rest, 0.0, abs_tol=1e-6 * case.size):
            terms.append(Term(((rest, "B of embeddings in wider types"),)))
        source = _cite(setup.recipe.note, _DIVIDED[trait.family])
        return Why(f"{what}, {setup.recipe.name}", tuple(terms), source)

    return build


def _divide_grads(case: FormulaCase, divided: Term) -> list[Term]:
    """Terms of gradients, which are ``divided`` where each micro-batch reduces them and have no
    other elements than what is trained."""
    setup, stage = case.setup, case.stage
    whole, graded = count_whole_grads(setup, stage), count_graded(setup, stage)
    terms = [divided]
    if setup.adapters is not None and setup.adapters.flattened:
        each = setup.recipe.grads, "B/parameter"
        terms = [Term((each, (graded, "parameters of layers and adapters")), divided.divisors)]
    if whole and case.size >= whole:
        rest = [] if isclose(case.size, whole) else terms
        terms = [Term(((whole, "B not yet reduced (no_sync)"),)), *rest]
    return terms


def _cite(*notes: str) -> str:
    """The sources, each once, with all its sections."""
    sections: dict[str, list[str]] = {}
    for source in (source for note in notes if note for source in note.split("; ")):
        work, _, section = source.partition(", section ")
        sections.setdefault(work, []).extend([section] if section else [])
    texts = []
    for work, cited in sections.items():
        word = "section" if len(cited) == 1 else "sections"
        texts.append(f"{work}, {word} {join_words(cited, 'and')}" if cited else work)
    return "; ".join(texts)


def _counted(setup: Setup) -> str:
    """What the number of trained parameters counts."""
    if setup.adapters is None:
        return "parameters"
    times = setup.adapters.width / setup.recipe.params
    return f"trained parameters, each of an adapter counted {format_number(times)} times"
