"""(Plan, templates) → Bundle: the files, as bytes. Text is laid out here; nothing is decided.

Templates are Jinja in a sandbox. Every value that is a plain string is quoted for the shell on its
way out; only what this module made itself as ``Raw`` passes as it is. The name of a missing value
is an error, never an empty word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from jobgen import payload
from jobgen.errors import Invalid, Place
from jobgen.model.bundle import Bundle, BundleFile
from jobgen.model.plan import Plan
from jobgen.model.race import name_folder
from jobgen.render.component_views import list_files
from jobgen.render.data import dump_plan
from jobgen.render.group_views import view_ready_command
from jobgen.render.rank_blocks import list_blocks
from jobgen.render.step_views import list_once
from jobgen.render.template_values import list_values
from jobgen.shell import Raw, quote

if TYPE_CHECKING:
    from jinja2 import Environment

Engine = Callable[[Mapping[str, str], Sequence[str], Mapping[str, object]], Mapping[str, str]]
"""Templates, names of files, what the templates see → the text of each file."""


def render(
    plan: Plan,
    templates: Mapping[str, str],
    engine: Engine | None = None,
    *,
    standalone: bool = False,
) -> Bundle:
    """The files of this plan. Same plan and templates, same bytes. Raises Invalid.

    ``standalone`` leaves out what only a job that jobgen submitted needs: its token and claim.
    """
    make = engine or lay_out
    made = _render_shape(plan, templates, make, standalone=standalone)
    for number, other in plan.race_plans:
        folder = name_folder(number)
        inner = _render_shape(other, templates, make, standalone=standalone, folder=folder)
        made += [file._replace(path=f"{folder}/{file.path}") for file in inner]
    return Bundle(tuple(sorted(made, key=lambda file: file.path)))


def _render_shape(
    plan: Plan,
    templates: Mapping[str, str],
    engine: Engine,
    *,
    standalone: bool,
    folder: str = "",
) -> list[BundleFile]:
    """The files of a job with one shape, which ``folder`` of the bundle is to hold."""
    made: list[BundleFile] = []
    names = ["job.sbatch", *(f"{step.name}.sh" for step in list_once(plan))]
    names += ["prepare.sh"] if plan.prepare else []
    names += [*_list_of_node(plan), *list_files(plan)]
    packed = plan.shape.packing is not None
    names += ["packed.sbatch"] if packed else []
    view = list_values(plan, standalone=standalone, folder=folder)
    files = dict(engine(templates, names, view))
    if packed:
        files |= {"element.sh": files["job.sbatch"], "job.sbatch": files.pop("packed.sbatch")}
    if not plan.programs:
        files["rank.sh"] = payload.select_blocks(payload.text("rank.sh"), list_blocks(plan))
    for program in plan.programs:
        view = {**list_values(program.plan, standalone=standalone), "step_name": Raw(program.name)}
        ready = view_ready_command(plan, program)
        names = [*_list_of_node(program.plan), *(["ready.sh"] if ready else [])]
        inner = engine(templates, names, view | (ready or {}))
        files |= {f"{program.name}/{name}": text for name, text in inner.items()}
        ends_early = program.group is not None and bool(program.group.until)
        blocks = list_blocks(program.plan, of_part=True, ends_early=ends_early)
        files[f"{program.name}/rank.sh"] = payload.select_blocks(payload.text("rank.sh"), blocks)
        made += [file._replace(path=f"{program.name}/{file.path}") for file in program.files]
    files["plan.json"] = json.dumps(dump_plan(plan), indent=1, ensure_ascii=False) + "\n"
    made += [BundleFile(path, text.encode()) for path, text in files.items()]
    return [*made, *plan.files]


def _list_of_node(plan: Plan) -> list[str]:
    """What runs on each node, or follows the programs if there are several."""
    if plan.programs:
        return ["groups.sh" if plan.has_groups else "step.sh"]
    inside = plan.container and plan.container.enter
    return ["node.sh", "program.sh", *(["container.sh"] if inside else [])]


def lay_out(
    templates: Mapping[str, str], names: Sequence[str], view: Mapping[str, object]
) -> Mapping[str, str]:
    """The text of each of these files. Raises Invalid where a template cannot be laid out."""
    from jinja2 import TemplateError

    environment, files = _open_environment(tuple(templates.items())), {}
    for name in names:
        try:
            files[name] = environment.get_template(f"{name}.j2").render(view)
        except TemplateError as error:
            place = Place(f"{name}.j2", getattr(error, "lineno", 0))
            raise Invalid(f"template {place}: {error}") from error
    return files


@lru_cache(maxsize=4)
def _open_environment(templates: tuple[tuple[str, str], ...]) -> Environment:
    """Jinja with these templates, as pairs of name and text.

    Kept, because to compile the templates takes five times as long as to render with them, and a
    job with programs, or with races, renders with the same ones several times.
    """
    from jinja2 import FunctionLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    texts = dict(templates)
    environment = ImmutableSandboxedEnvironment(
        # its name is its file name, too, so that a traceback tells the place in it
        loader=FunctionLoader(lambda n: (texts[n], n, None) if n in texts else None),
        undefined=StrictUndefined,
        finalize=_finalize,
        comment_start_string="<#--",  # Jinja's own is the beginning of ${#ARRAY}
        comment_end_string="--#>",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # what is submitted must be what was shown
    environment.filters.pop("random")
    for name in ("lipsum", "joiner", "cycler"):
        environment.globals.pop(name)
    return environment


def _finalize(value: object) -> object:
    """Strings are quoted for the shell; numbers pass; nothing else can be written."""
    from jinja2 import Undefined
    from jinja2.exceptions import TemplateRuntimeError

    if isinstance(value, (Raw, Undefined, int)):
        return value
    if isinstance(value, str):
        return quote(value)
    raise TemplateRuntimeError(f"{type(value).__name__} is not text")
