"""``cluster add``: a profile out of what a site tells of itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from jobgen.app import clusters, probing
from jobgen.app.permissions import trust_profile
from jobgen.app.site_survey import Survey, survey, try_requests
from jobgen.app.world import World
from jobgen.errors import Diagnostic, Invalid, JobgenError, Missing
from jobgen.model.record import Login
from jobgen.model.units import clip
from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines
from jobgen.survey import choice as choices
from jobgen.survey import node_profile, site_profile, write
from jobgen.survey.choice import Choice
from jobgen.survey.draft import Draft, Gap, ProfileLine, join_names
from jobgen.survey.node_profile import Probe


class ProfileRequest(NamedTuple):
    """What the words of the command say."""

    name: str
    host: str = ""
    """The login host; empty: this machine."""
    user: str = ""
    backend: Literal["paramiko", "openssh"] = "paramiko"
    partition: str = ""
    account: str = ""
    qos: str = ""
    root: str = ""
    output: Path | None = None
    patience: float = probing.PATIENCE


class Added(NamedTuple):
    """A profile that was made."""

    path: Path | None
    """Where it was written; None: nowhere, it goes to standard output."""
    label: str
    text: str
    draft: Draft
    probed: str = ""
    """The node that was looked at; empty where none was."""


Leave = Callable[[Choice, tuple[tuple[str, str], ...]], bool]
"""Asks whether a job may be submitted for this choice, with these options."""


def choose_destination(world: World, wanted: ProfileRequest) -> Path | None:
    """Where the profile goes; None for standard output. Raises Invalid for words that it cannot
    hold."""
    from jobgen.model.cluster import check_host, check_user
    from jobgen.model.fields import NAME
    from jobgen.model.form import Refusal

    try:
        NAME(wanted.name)
    except Refusal as refusal:
        message = f"'{clip(wanted.name)}' is not a valid cluster name"
        hint = refusal.faults[0].hint or "such as a100x16"
        raise Invalid(Diagnostic("J416", message, hint=hint)) from refusal
    for check, word in ((check_host, wanted.host), (check_user, wanted.user)):
        try:
            check(word or "x")
        except Refusal as refusal:
            fault = refusal.faults[0]
            raise Invalid(Diagnostic(fault.code, fault.message, hint=fault.hint)) from refusal
    if wanted.output is not None and str(wanted.output) == "-":
        return None
    return wanted.output or world.config / "clusters" / f"{wanted.name}.yaml"


def add(
    world: World, wanted: ProfileRequest, leave: Leave, *, say: Callable[[str], None] | None = None
) -> Added:
    """Ask the site, with leave a node, and make the profile; ``save`` writes it.

    Raises Unreachable, Missing (no Slurm, or no such partition), Refused, TimedOut.
    """
    path = choose_destination(world, wanted)
    tell = say or world.say
    with world.connect(_login(wanted)) as transport:
        found = survey(transport)
        chosen = choose(found, wanted.partition)
        draft = draft_profile(found, chosen, wanted)
        slurm = _slurm(draft)
        refuses = try_requests(transport, chosen, slurm)
        if isinstance(refuses, Gap) or refuses.value:
            draft = draft._replace(entries=(*draft.entries, refuses))
        told = None
        if leave(chosen, slurm):
            asked = probing.build_order(chosen, _root(draft), found.login.host, slurm)
            told = probing.run(transport, asked, world, patience=wanted.patience, say=tell)
    draft = complete_draft(draft, chosen, told, wanted)
    text = write.format_profile(_head(wanted), draft)
    label = world.format_path(path) if path else "standard output"
    _valid(text, label)
    return Added(path, label, text, draft, told.node if told else "")


def choose(found: Survey, partition: str) -> Choice:
    """The nodes that the profile is about. Raises Missing where there are none such."""
    chosen = choices.choose(found.site, partition)
    if chosen is None:
        known = join_names(dict.fromkeys(k.partition for k in choices.list_kinds(found.site)), 12)
        closed = "no partition is up and open to users"
        message = f"there is no partition '{partition[:64]}'" if partition else closed
        hint = f"known: {known or 'none with nodes'}; --partition NAME takes one"
        raise Missing(Diagnostic("J417", message, hint=hint))
    return chosen


def draft_profile(found: Survey, chosen: Choice, wanted: ProfileRequest) -> Draft:
    """What the login host tells, before a node is asked."""
    said = site_profile.UserFacts(wanted.account, wanted.qos, wanted.root)
    return Draft(tuple(site_profile.list_entries(found.site, found.login, chosen, said)))


def complete_draft(
    draft: Draft, chosen: Choice, told: Probe | None, wanted: ProfileRequest
) -> Draft:
    """The draft with what a node told, or with why none was asked; and its first lines."""
    gpus = chosen.kind.gpus
    rest = list(node_profile.list_entries(told, gpus)) if told else list(_not_asked(gpus))
    more = list(node_profile.list_notes(told, gpus)) if told else []
    if told:
        rest += [
            site_profile.mark_shared(one, told.node)
            for one in draft.lines
            if one.path[0] == "paths"
        ]
    merged = site_profile.draft(
        draft.entries, rest, (*choices.list_notes(chosen, wanted.partition), *more)
    )
    return drop_unsound(merged._replace(entries=(*_first(wanted), *merged.entries)))


def drop_unsound(draft: Draft) -> Draft:
    """The draft, its values that a profile cannot hold said in a comment: an account's name may
    have a form that sbatch takes and that we do not."""
    from jobgen.load import check

    for _ in draft.entries:
        text = write.format_profile((), draft)
        lines = split_lines(text)
        places = (p.place for p in check(text, "x").problems if p.severity == "error")
        wrong = {lines[place.line - 1] for place in places if place and place.line}
        kept = tuple(
            _as_gap(one) if write.format_entry(one) in wrong else one for one in draft.entries
        )
        if kept == draft.entries:
            break
        draft = draft._replace(entries=kept)
    return draft


def _as_gap(one: ProfileLine | Gap) -> ProfileLine | Gap:
    if isinstance(one, Gap) or one.path == ("nodes", "count"):
        return one
    return Gap(one.path, f"a profile cannot hold it ({one.how})", (str(one.value),))


def save(world: World, added: Added) -> None:
    """Write the profile in one move; its login, which was asked for, is trusted from then on.

    Raises Invalid where it cannot be written.
    """
    if added.path is None:
        return
    part = added.path.with_name(f"{added.path.name}.{os.getpid()}.part")
    try:
        added.path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(added.text, encoding="utf-8")
        part.replace(added.path)
    except OSError as error:
        part.unlink(missing_ok=True)
        message = f"{added.label} cannot be written: {error.strerror}"
        raise Invalid(
            Diagnostic("J418", message, hint="--output FILE names another place")
        ) from error
    # a profile that is still to be completed is asked for when it is used
    with suppress(Invalid):
        profile = clusters.find(world, str(added.path.absolute()))
        trust_profile(world, profile.file, profile.site)


def _login(wanted: ProfileRequest) -> Login:
    return Login(wanted.backend, wanted.host, wanted.user) if wanted.host else Login("local")


def _slurm(draft: Draft) -> tuple[tuple[str, str], ...]:
    """The options of sbatch that the profile gives every job."""
    inside = (one for one in draft.lines if one.path[:2] == ("defaults", "slurm"))
    return tuple((one.path[2], str(one.value)) for one in inside)


def _root(draft: Draft) -> str:
    root = draft.get("paths", "root")
    if root is None:
        message = "no folder on the login host is yours to write"
        raise JobgenError(Diagnostic("J415", message, hint="--root DIR names one"))
    return str(root)


def _not_asked(gpus: int) -> tuple[Gap, ...]:
    why = "no node was asked (--probe asks one)"
    keys = ("fabric", "nics", "nic_gbps", "ib_hca", "socket_ifname", "internet")
    inside = (Gap(("nodes", "intra"), why),) if gpus > 1 else ()
    return (*inside, *(Gap(("network", key), why) for key in keys))


def _first(wanted: ProfileRequest) -> tuple[ProfileLine | Gap, ...]:
    """Name, scheduler and the way in."""
    first = [
        ProfileLine(("name",), wanted.name, "as asked"),
        ProfileLine(("scheduler",), "slurm", "sinfo answers"),
    ]
    if wanted.host:
        first.append(ProfileLine(("ssh", "host"), wanted.host, "--from"))
    if wanted.user:
        first.append(ProfileLine(("ssh", "user"), wanted.user, "--user"))
    if wanted.host and wanted.backend != "paramiko":
        first.append(ProfileLine(("ssh", "backend"), wanted.backend, "--backend"))
    return tuple(first)


def _head(wanted: ProfileRequest) -> tuple[str, ...]:
    host = wanted.host or "this machine"
    return (
        f"What `jobgen cluster add {wanted.name}` found on {host}; behind each line, how.",
        "What it did not find is commented out, or unknown: complete it where you know more.",
    )


def _valid(text: str, label: str) -> None:
    """Raise where the lines that were found make no profile: other people's names are in them."""
    from jobgen.load import check

    checked = check(text, "what was found")
    if not checked.valid:
        first = next(p for p in checked.problems if p.severity == "error")
        message = f"what was found makes no profile: {first.message}"
        raise JobgenError(
            Diagnostic("J419", message, hint=first.hint or f"{label} was not written")
        )
