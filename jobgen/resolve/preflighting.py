"""Whether the nodes are checked before the program starts, and what a bad one leads to."""

from __future__ import annotations

from collections.abc import Mapping

from jobgen.errors import Place
from jobgen.model.decision import SelfEvident, Setting, cite_rule
from jobgen.model.part_plans import PreflightPlan, StopPlan
from jobgen.model.plan import Part, Shape
from jobgen.resolve.allocation import merge_options, name_gpus, unbind_gpus
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.shape import Sized
from jobgen.resolve.start import name_component
from jobgen.shell import Raw, Word

_KEY = "preflight"


def choose_scripts(look: Inputs, shape: Shape, sized: Sized) -> Part:
    """The scripts, where there is a preflight."""
    word, why, place = _decided(look, shape)
    sized.decide(_KEY, word, why, place)
    if word == "off":
        return Part(_KEY)
    from jobgen import preflight

    het = shape.components > 1
    return Part(_KEY, files=preflight.files(amd=shape.amd, full=word == "full", het=het))


def plan(
    look: Inputs, shape: Shape, env: Mapping[str, Setting], stop: StopPlan | None
) -> PreflightPlan | None:
    """What is looked at, and whether a bad node ends the job or is excluded; None: nothing is."""
    word, _, place = _decided(look, shape)
    if word == "off":
        return None
    from jobgen import preflight

    def by_network(*path: str) -> Place:
        return look.cite_cluster("network", *path)

    asked = preflight.PreflightInputs(shape, look.cluster.network, env, by_network)
    rows = preflight.expected(asked, full=word == "full")
    gpus = name_gpus(look, shape)
    component = name_component(look.group)
    if component or (gpus and shape.nodes > 1):
        rows = (*rows, _srun((*component, *gpus, *unbind_gpus(look, shape))))
    if look.local:
        rows = (
            *rows,
            Setting("local=yes", "all simulated nodes are this machine", cite_rule("preflight")),
        )
    spare = look.cluster.nodes.count - shape.nodes
    named = bool({"nodelist", "nodefile"} & merge_options(look).keys())
    return PreflightPlan(
        expect=rows,
        stops=shape.min_nodes is None,
        excludes=bool(stop and stop.requeue and spare > 0 and not component)
        and not look.local
        and not named,
        spare=spare,
        measures=_expectation(look, shape) if word == "full" else None,
        place=place,
    )


def _srun(gpus: tuple[Word, ...]) -> Setting:
    """What the preflight's own srun is told of GPUs; bash expands it where it is no plain text."""
    words = " ".join(str(word) for word in gpus)
    plain = not any(isinstance(word, Raw) for word in gpus)
    value = f"srun={words}" if plain else Raw(f'"srun={words}"')
    why = "options of the preflight's srun: the job's GPUs"
    return Setting(value, why, cite_rule("preflight"))


def _expectation(look: Inputs, shape: Shape) -> tuple[str, ...]:
    """What the all-reduce must reach: known only of jobs that take whole nodes with GPUs."""
    from jobgen.fabric import limits

    whole = shape.gpus_per_node == look.cluster.nodes.gpus_per_node > 0
    found = limits.find_limit(look.cluster, shape.nodes) if whole else None
    if found is None or not found.expected:
        return ()
    return (f"busbw={found.expected / 1e9:.4g}", f"of={found.why}; {found.source}")


def _decided(look: Inputs, shape: Shape) -> tuple[str, str, Place]:
    """off, auto or full; why; and who says so."""
    asked = look.job.preflight
    place = look.cite_job(_KEY)
    if asked == "off":
        return "off", SelfEvident.AS_ASKED, place
    if shape.packing is not None:
        return "off", "elements of a packed sweep are not checked one by one", place
    if asked == "full":
        return "full", "checks each node in depth and measures an all-reduce", place
    rule = place if (_KEY,) in look.spec.places else cite_rule("preflight")
    if look.local:
        return "off", "auto: the simulated nodes are all this machine", rule
    if shape.nodes == 1 and not shape.gpus_per_node:
        word, why = "off", "auto: a single node without GPUs needs no check"
    elif shape.world == 1 or (shape.nodes == 1 and shape.gpus_per_node == 1):
        word, why = "off", "auto: a single rank or GPU needs no check"
    else:
        word, why = "auto", "check each node before launch"
    return word, why, rule
