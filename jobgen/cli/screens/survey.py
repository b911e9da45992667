"""The answers of ``cluster add`` and ``cluster check``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, fold, fold_rows
from jobgen.cli.output import Ink, defuse
from jobgen.wording import count, format_value

if TYPE_CHECKING:
    from jobgen.app.adding import Added
    from jobgen.app.checking import CheckedProfile
    from jobgen.app.proving import Proof
    from jobgen.survey.draft import Draft

_HIDDEN = frozenset({"name", "scheduler", "ssh"})


def draw_added(made: Added, ink: Ink) -> str:
    """What was found with how, what was not, and what to do next."""
    if made.path is None:
        return made.text
    found = [
        (".".join(one.path), defuse(format_value(one.value)), defuse(one.how))
        for one in made.draft.lines
        if one.path[0] not in _HIDDEN
    ]
    parts = [f"{ink('good', 'Wrote')} {defuse(made.label)}\n", fold_rows(found, ink.width)]
    if made.draft.gaps:
        parts += [f"\n{ink('strong', 'Not found')}\n", _gaps(made.draft, ink)]
    if made.draft.notes:
        parts.append("\n")
    parts += [f"{fold(f'note: {defuse(note)}', ink.width, '  ')}\n" for note in made.draft.notes]
    name = defuse(made.draft.get("name"))
    parts.append(f"\nNext: jobgen plan job.yaml -c {name}\n")
    return "".join(parts)


def draw_proof(added: Added, proof: Proof, ink: Ink) -> str:
    """What the job on two nodes showed, and where that was written; or how to see its error."""
    lines = "".join(f"  {fold(defuse(line), ink.width - 2, '  ')}\n" for line in proof.lines)
    name = defuse(added.draft.get("name"))
    if proof.ok:
        head = f"{ink('good', 'Proved')}, and noted in {defuse(added.label)}"
        return f"{head}\n{lines}Next: jobgen plan job.yaml -c {name}\n"
    commands = [("log", f"jobgen logs {defuse(proof.run)}")] if proof.run else []
    commands.append(("try again", f"jobgen bench allreduce -c {name} --like job.yaml"))
    return f"{ink('bad', 'Not proved')}\n{lines}{align(commands, indent='  ')}"


def _gaps(draft: Draft, ink: Ink) -> str:
    """A sentence for each reason, with the keys that it is the reason for."""
    reasons: dict[str, list[str]] = {}
    for one in draft.gaps:
        maybe = f"; {' or '.join(one.maybe)}" if one.maybe else ""
        reasons.setdefault(defuse(f"{one.why}{maybe}"), []).append(".".join(one.path))
    lines = (f"{', '.join(keys)}: {why}" for why, keys in reasons.items())
    return "".join(f"  {fold(line, ink.width - 4, '    ')}\n" for line in lines)


def dump_added(made: Added) -> dict[str, Any]:
    """An added profile as plain data."""
    return {
        "name": made.draft.get("name"),
        "file": str(made.path) if made.path else None,
        "text": made.text,
        "node": made.probed or None,
        **_draft(made.draft),
    }


def _draft(draft: Draft) -> dict[str, Any]:
    return {
        "found": [
            {"key": ".".join(one.path), "value": one.value, "how": one.how} for one in draft.lines
        ],
        "not_found": [
            {"key": ".".join(one.path), "why": one.why, "maybe": list(one.maybe)}
            for one in draft.gaps
        ],
        "notes": list(draft.notes),
    }


def draw_checked(seen: CheckedProfile, ink: Ink, *, verbose: bool = False) -> str:
    """The differences, each with the profile's line; then what agrees, and what was not seen."""
    found = seen.comparison
    parts = [f"{ink('strong', defuse(seen.profile.value.name))}  {defuse(seen.file.label)}\n"]
    for one in found.wrong:
        said = (
            f"{ink('bad', 'differs')}  {defuse(one.key)}: {defuse(one.said)} ({defuse(one.place)})"
        )
        parts.append(f"{said}\n         found {defuse(one.found)}: {defuse(one.how)}\n")
    more = [one for one in found.differences if not one.wrong]
    if verbose:
        rows = [("more", one.key, f"{one.found}, {one.how}") for one in more]
        rows += [("unseen", key, why) for key, why in found.unseen]
        parts += [f"{word:8} {defuse(key)}: {defuse(told)}\n" for word, key, told in rows]
    said = f"{count(len(found.wrong), 'key')} differ{'s' if len(found.wrong) == 1 else ''}"
    rest = [f"{len(found.same)} agree"] if found.same else []
    rest += [f"{len(found.unseen)} not checked"] if found.unseen else []
    rest += [f"{len(more)} could be added"] if more else []
    hidden = " (-v shows them)" if (more or found.unseen) and not verbose else ""
    parts.append(f"{', '.join([said, *rest])}{hidden}\n")
    if found.unseen and not seen.probed:
        parts.append("--probe inspects a node with a two-minute job\n")
    return "".join(parts)


def dump_checked(seen: CheckedProfile) -> dict[str, Any]:
    """A checked profile as plain data."""
    return {
        "name": seen.profile.value.name,
        "file": seen.file.label,
        "node": seen.probed or None,
        "equal": not seen.comparison.wrong,
        "differences": [one._asdict() for one in seen.comparison.differences],
        "same": list(seen.comparison.same),
        "unseen": [{"key": key, "why": why} for key, why in seen.comparison.unseen],
        "notes": list(seen.comparison.notes),
    }
