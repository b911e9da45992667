"""Templates of somebody's own in place of the shipped ones: laid out apart, and told of."""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from jobgen.app.upload_safety import find_tokens_in
from jobgen.app.world import World
from jobgen.catalog import TemplateFile
from jobgen.errors import Diagnostic, Invalid, JobgenError, Place
from jobgen.model.bundle import Bundle
from jobgen.model.plan import Plan
from jobgen.render import render

SECONDS = 20.0
"""Until the child has answered: a cold file system starts Python slowly."""
_LIMIT = 8 << 20
"""Bytes of an answer; the child allows itself less."""
_START = "import sys; sys.path[:] = sys.argv[1:]; from jobgen.app import confined; confined.main()"
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""What an interpreter may need to start. Nothing else of the environment reaches a template."""


def override_templates(
    world: World,
    plan: Plan,
    templates: Mapping[str, str],
    own: Sequence[TemplateFile],
    *,
    standalone: bool = False,
) -> tuple[Plan, Bundle]:
    """The plan, which names every template that is not jobgen's with its digest, and its files.

    Raises Invalid with the place in the template, also where one does not come to an end.
    """
    _refuse_useless(templates, own)
    for file in own:
        world.texts[file.label] = file.text
    digests = {file.name: sha256(file.text.encode()).hexdigest() for file in own}
    told = {f"template {name}": digest for name, digest in digests.items()}
    plan = plan._replace(sources={**plan.sources, **told})
    all_of_them = {**templates, **{file.name: file.text for file in own}}
    bundle = render(plan, all_of_them, partial(_apart, world, own), standalone=standalone)
    notes = [_note(file, templates, digests[file.name][:12]) for file in own]
    # the place is one of this machine, so it stands in no file
    return plan._replace(notes=(*plan.notes, *notes)), bundle


def _note(file: TemplateFile, templates: Mapping[str, str], digest: str) -> Diagnostic:
    instead = f"is used instead of jobgen's own {file.name}"
    what = instead if file.name in templates else "is used by the templates beside it"
    message = f"this template (sha256 {digest}) {what}"
    return Diagnostic("J240", message, Place(file.label), severity="note")


def _refuse_useless(templates: Mapping[str, str], own: Sequence[TemplateFile]) -> None:
    """A name that nothing knows would be a change without an effect, and a token would be sent."""
    problems = []
    for file in own:
        others = "".join(other.text for other in own if other is not file)
        if file.name not in templates and file.name not in others:
            near = difflib.get_close_matches(file.name, list(templates), 1)
            hint = f"did you mean {near[0]}? " if near else ""
            message = "no template of jobgen has this name, and no other includes it"
            hint += f"there are: {', '.join(templates)}"
            problems.append(Diagnostic("J242", message, Place(file.label), hint))
        try:
            file.text.encode()
        except UnicodeEncodeError:
            problems.append(Diagnostic("J241", "this is no UTF-8 text", Place(file.label)))
        text = file.text.encode(errors="replace")
        problems += find_tokens_in(text, file.label, "take it out")
    if problems:
        raise Invalid(*problems)


def _apart(
    world: World,
    own: Sequence[TemplateFile],
    templates: Mapping[str, str],
    names: Sequence[str],
    view: Mapping[str, object],
) -> Mapping[str, str]:
    """As ``render.lay_out``, in a process that has limits and is given nothing else."""
    import pickle

    data = pickle.dumps((dict(templates), list(names), dict(view)))
    answer = _answer(_run(world, data))
    files = answer.get("files")
    if isinstance(files, dict) and set(files) == set(names):
        return {str(name): str(text) for name, text in files.items()}
    labels = {file.name: file.label for file in own}
    name = str(answer.get("name") or (own[0].name if len(own) == 1 else ""))
    label = labels.get(name) or (f"jobgen's own {name}" if name else "templates")
    line = answer.get("line")
    message = str(answer.get("message") or "it was laid out to no usable end")
    place = Place(label, line if isinstance(line, int) else 0)
    raise Invalid(Diagnostic("J241", message, place, _hint(message, view)))


def _hint(message: str, view: Mapping[str, object]) -> str:
    unknown = re.match(r"'(\w+)' is undefined", message)
    if not unknown:
        return "compare it with the one that jobgen ships"
    near = difflib.get_close_matches(unknown[1], list(view), 1)
    guess = f"did you mean {near[0]}? " if near else ""
    return f"{guess}a template sees: {', '.join(sorted(view))}"


def _run(world: World, data: bytes) -> tuple[bytes, int]:
    """What the child printed, and its exit code."""
    folders = [str(Path(__file__).parents[2]), *filter(None, sys.path)]
    words = [sys.executable, "-I", "-S", "-c", _START, *folders]
    kept = {name: world.environ[name] for name in _KEPT if name in world.environ}
    try:
        child = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=kept,
            cwd="/",
        )
    except OSError as error:
        raise JobgenError(f"no process for the templates can be started: {error}") from error
    assert child.stdin is not None  # noqa: S101 - both are pipes
    assert child.stdout is not None  # noqa: S101
    guard = threading.Timer(SECONDS, child.kill)
    guard.start()
    try:
        with contextlib.suppress(BrokenPipeError), child.stdin:
            child.stdin.write(data)
        answer = child.stdout.read(_LIMIT + 1)
    finally:
        child.stdout.close()
        guard.cancel()
        if sys.exc_info()[0] or len(answer) > _LIMIT:
            child.kill()
        code = child.wait()
    return answer, code


def _answer(told: tuple[bytes, int]) -> Mapping[str, Any]:
    """What the child said; where it was ended, why that will have been."""
    text, code = told
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    if code < 0:
        return {"message": "it was stopped: it took too much time or memory"}
    return {"message": f"it could not be laid out (exit code {code})"}
