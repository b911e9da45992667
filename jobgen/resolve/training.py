"""``train:`` → the strategy, and what the program is given to follow it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from jobgen.errors import Diagnostic, Invalid, raise_errors
from jobgen.model.decision import Setting
from jobgen.model.plan import Estimate, Part, Shape
from jobgen.named_tuple import NamedTuple
from jobgen.resolve import planner_checks, planner_request, run_notes
from jobgen.resolve.arguments import PlannedArguments, check_arguments
from jobgen.resolve.checkpoint_folder import check_options
from jobgen.resolve.deepspeed_files import check_configs
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.measured import check_measured, note_compiled
from jobgen.resolve.model_file import check_layer_classes, check_model_file
from jobgen.resolve.planned_only import (
    check_passed,
    note_computing,
    note_set_by_hand,
    note_unapplied,
)
from jobgen.resolve.planner_request import PlannerRequest
from jobgen.resolve.quantized import check_quantized, note_quantized
from jobgen.resolve.run_values import adopt_arguments
from jobgen.resolve.shape import Sized
from jobgen.resolve.sharding import check_sharding
from jobgen.resolve.strategy_decisions import NAME, tell_decisions
from jobgen.resolve.unread import check_readers

if TYPE_CHECKING:
    from jobgen.model.train import Train
    from jobgen.resolve.program import Program
    from jobgen.shell import Word
    from jobgen.strategy import ModelSizes, Note, RankLayout, Strategy
    from jobgen.strategy.frameworks import Configured
    from jobgen.strategy.shapes import Architecture

_DEEPSPEED = "ds_config.json"


class Saves(NamedTuple):
    """How the framework saves when the job is asked to stop."""

    framework: str = ""
    how: Literal["program", "wrapper", "signal", "interval"] = "program"
    signal: str = ""


class Trained(NamedTuple):
    """What the rest of the plan takes over."""

    parts: tuple[Part, ...] = ()
    args: tuple[Word, ...] = ()
    """Words behind the program's own."""
    launcher: bytes | None = None
    """The launcher's configuration file, where the strategy makes one."""
    chosen: Mapping[str, Setting] = MappingProxyType({})
    """What jobgen chose in the program's configuration: key or option → value."""
    saves: Saves = Saves()
    estimate: Estimate | None = None
    planner_request: PlannerRequest | None = None
    traces_itself: bool = False
    """Whether the framework is told by options of its own which steps to trace."""


def plan_training(look: Inputs, size: Shape, launcher: str, runs: Program, sized: Sized) -> Trained:
    """The strategy and its configuration; nothing where the job has no ``train``.

    Raises Invalid with everything that cannot work.
    """
    if look.job.train is None:
        return _check_untrained(look, size, launcher)
    from jobgen.strategy.model_sizes import find_architecture

    raise_errors(Invalid, list(check_model_file(look.spec, look.facts.texts)))
    world = planner_request.describe_world(look, size)
    adopted = adopt_arguments(look, launcher, look.job.train, world)
    request = planner_request.build_request(look, size, launcher, adopted)
    chosen = planner_request.choose_strategy(look, size, adopted.train, request)
    train, arch = chosen.train, find_architecture(chosen.train, look.facts.texts)
    decided, configured = _decide_strategy(look, size, launcher, train)
    made = _configure(look, size, runs, decided, arch)
    tell_decisions(look, decided, sized, chosen.why)
    estimate = planner_request.estimate_memory(chosen, request)
    clashes = tuple(check_sharding(look, decided.framework, made.args))
    planned = PlannedArguments(train, decided, made.args, _assume_length(request))
    refused = {clash.place for clash in clashes}
    arguments = check_arguments(look, launcher, planned)
    differing = [one for one in arguments if one.check.place not in refused]
    notes = (
        *made.notes,
        *run_notes.note_repeated(runs.argv, made.args, {one.option for one in differing}),
        *run_notes.note_other_model(runs.argv, arch),
        *run_notes.note_batch_search(runs.argv, decided),
        *run_notes.note_uncounted(runs.argv, train, decided),
        *_name_fewer_ranks(decided, size),
        *note_unapplied(adopted.train, decided, train),
        *note_set_by_hand(look, decided, adopted.train),
        *note_compiled(train, request.ask.measured if request.ask else None),
        *note_computing(decided),
        *note_quantized(look, decided, train),
    )
    checks = (
        *((planner_checks.check_memory(look, size, estimate),) if estimate else ()),
        *planner_checks.check_sizes(look, request),
        *planner_checks.check_mixers(look, request),
        *check_layer_classes(look.spec, look.facts.texts),
        *check_measured(look, train),
        *planner_checks.check_layout(look, chosen, request),
        *planner_checks.check_precision(look, chosen, request),
        *clashes,
        *(one.check for one in differing),
        *check_readers(look.spec, look.facts, launcher, decided.framework, made.args),
        *check_options(look, size, decided.framework, runs.argv),
        *check_passed(look, decided, runs.argv),
        *check_quantized(look, decided, train),
    )
    noted = (*configured, *(_place_note(look, note) for note in notes))
    return Trained(
        (Part(NAME, env=made.env, files=made.files, notes=noted, checks=checks),),
        made.args,
        made.launcher,
        made.chosen,
        Saves(decided.framework, made.saves, made.signal),
        estimate,
        request,
        made.traces_itself,
    )


def _decide_strategy(
    look: Inputs, size: Shape, launcher: str, train: Train
) -> tuple[Strategy, tuple[Diagnostic, ...]]:
    """The strategy, and notes on configurations of the user's own. Raises Invalid."""
    from jobgen import strategy
    from jobgen.strategy.model_sizes import read_sizes

    texts = look.facts.texts
    known, faults = read_sizes(train, texts)
    world = planner_request.describe_world(look, size)
    faults += strategy.check_train(train, known, world, launcher=launcher)
    raise_errors(Invalid, [planner_request.diagnose_train(look, fault) for fault in faults])
    raise_errors(Invalid, list(_fewer(look, train, known, world, launcher)))
    framework = strategy.choose_framework(train, launcher)
    configured = tuple(check_configs(look, size, launcher, framework))
    raise_errors(Invalid, configured)
    config = texts.get(train.config) if train.config else None
    decided = strategy.decide(train, known, world, launcher=launcher, config=config)
    return decided, configured


def _configure(
    look: Inputs, size: Shape, runs: Program, decided: Strategy, arch: Architecture | None
) -> Configured:
    """What the framework is given to follow the strategy. Raises Invalid."""
    from jobgen.strategy import frameworks

    made = frameworks.configure(
        frameworks.FrameworkRequest(
            decided,
            size.nodes,
            size.ranks_per_node,
            gpus=planner_request.describe_world(look, size).gpus,
            place=look.cite_job(NAME),
            run_args=runs.argv,
            stops=look.job.checkpoint is not None,
            model=arch,
        )
    )
    raise_errors(Invalid, [planner_request.diagnose_train(look, fault) for fault in made.faults])
    raise_errors(Invalid, _places(look, made, runs))
    return made


def _assume_length(request: PlannerRequest) -> int | None:
    """Tokens of a sequence that the estimate is made for; None where nothing is estimated."""
    from jobgen.strategy.choice.setups import assume_length

    return assume_length(request.ask) if request.ask else None


def _place_note(look: Inputs, note: Note) -> Diagnostic:
    place = look.spec.find_place(*note.path)
    return Diagnostic("J239", note.message, place, note.hint, note.severity)


def _check_untrained(look: Inputs, size: Shape, launcher: str) -> Trained:
    """What can be checked of a job without ``train``."""
    configured = tuple(check_configs(look, size, launcher, ""))
    raise_errors(Invalid, configured)
    clashes = tuple(check_sharding(look, "", ()))
    part = Part(NAME, notes=configured, checks=clashes)
    return Trained((part,) if configured or clashes else ())


_ANY_WORLD = ("torch", "megatron", "none")
"""Frameworks whose configuration holds for any number of ranks, or is read by the program."""


def _fewer(
    look: Inputs, train: Train, known: ModelSizes, world: RankLayout, launcher: str
) -> Iterator[Diagnostic]:
    """What an elastic job could not go on with, once it has lost nodes."""
    from jobgen import strategy

    least = look.job.min_nodes
    if least is None:
        return
    span = f"nodes: {least}:{world.nodes}"
    hint = f"set nodes: {world.nodes}"
    chosen = strategy.choose_framework(train, launcher)
    if chosen not in _ANY_WORLD:
        message = f"{chosen} fixes the number of ranks, but {span} may run with fewer"
        yield look.diagnose_job("J238", message, "nodes", hint=f"{hint}, or use framework: torch")
        return
    for nodes in range(least, world.nodes):
        for fault in strategy.check_train(
            train, known, world._replace(nodes=nodes), launcher=launcher
        ):
            message = f"train: with {nodes} of {span}: {fault.message}"
            more = f"{hint}, or sizes that divide evenly for every number of nodes"
            yield look.diagnose_job(fault.code, message, "nodes", hint=more)
            return


def _places(look: Inputs, made: Configured, runs: Program) -> list[Diagnostic]:
    """Where the program would not be given what was made for it."""
    found = []
    if made.args and not runs.simple:
        message = (
            "run: has more than one command, but this framework's options must follow a single one"
        )
        hint = "move what precedes the program to setup:"
        found.append(look.diagnose_job("J238", message, "run", hint=hint))
    both = made.launcher is not None or any(f.path == _DEEPSPEED for f in made.files)
    if both and look.job.launcher.config:
        message = "both launcher.config and train: provide the launcher's configuration"
        hint = "remove launcher.config, or set framework: none under train:"
        if made.launcher is None:
            message = f"both launcher.config and train: provide {_DEEPSPEED}"
            hint = "use train.config instead of launcher.config"
        found.append(look.diagnose_job("J238", message, "launcher", "config", hint=hint))
    return found


def _name_fewer_ranks(decided: Strategy, size: Shape) -> Iterator[Note]:
    """What an elastic job's program does itself."""
    from jobgen.strategy import Note

    if size.min_nodes is not None and decided.framework == "torch":
        message = (
            f"strategy.json is for {decided.mesh.world} ranks; with fewer, the program "
            "must divide global_batch by WORLD_SIZE"
        )
        yield Note(message, ("nodes",))
