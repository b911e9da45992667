"""``cluster check``: a profile against what its site tells of itself now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jobgen.app import adding, clusters, probing
from jobgen.app.adding import ProfileRequest
from jobgen.app.site_survey import Survey, survey, try_requests
from jobgen.app.world import World
from jobgen.errors import Diagnostic, Usage
from jobgen.named_tuple import NamedTuple
from jobgen.survey import compare, write
from jobgen.survey.compare import Comparison
from jobgen.survey.draft import Gap, ProfileLine

if TYPE_CHECKING:
    from jobgen.catalog import ClusterFile
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.loaded import Loaded
    from jobgen.survey.choice import Choice
    from jobgen.survey.node_profile import Probe


class CheckedProfile(NamedTuple):
    """A profile, and how it compares with its machine."""

    file: ClusterFile
    profile: Loaded[ClusterProfile]
    comparison: Comparison
    survey: Survey
    probed: str = ""
    """The node that was looked at; empty where none was."""


def check(
    world: World,
    name: str,
    leave: adding.Leave | None = None,
    *,
    known: Survey | None = None,
    patience: float = probing.PATIENCE,
    say: Callable[[str], None] | None = None,
) -> CheckedProfile:
    """Compare a profile with its site; a node is asked only where ``leave`` says so.

    ``known`` are the answers of a caller that has asked already: then nothing is contacted.
    Raises Missing or Invalid for the profile, Usage for a local one, and as ``adding.add``.
    """
    from jobgen.app.permissions import require_login

    cluster = clusters.find(world, name)
    file, profile = cluster
    if profile.value.scheduler == "local":
        message = f"{profile.value.name} is this machine: there is no Slurm to ask"
        hint = f"check this machine: jobgen doctor -c {name}"
        raise Usage(Diagnostic("J411", message, hint=hint))
    if known is not None:
        return _compared(file, profile, known, None)
    require_login(world, file, cluster.site)
    with world.connect(cluster.site.login) as transport:
        found = survey(transport)
        told, refuses = None, None
        if not compare.compare_partition(profile, found.site):
            chosen = adding.choose(found, _partition(profile.value))
            slurm = _slurm(profile, found, chosen)
            refuses = try_requests(transport, chosen, slurm)
            if leave and leave(chosen, slurm):
                root = profile.value.paths.root
                asked = probing.build_order(chosen, root, found.login.host, slurm)
                told = probing.run(transport, asked, world, patience=patience, say=say or world.say)
    return _compared(file, profile, found, told, refuses)


def _compared(
    file: ClusterFile,
    profile: Loaded[ClusterProfile],
    found: Survey,
    told: Probe | None,
    refuses: ProfileLine | Gap | None = None,
) -> CheckedProfile:
    from jobgen.load import load_cluster

    wrong = compare.compare_partition(profile, found.site)
    if wrong:
        return CheckedProfile(file, profile, Comparison((wrong,)), found)
    partition = _partition(profile.value)
    chosen = adding.choose(found, partition)
    # the root is the profile's own choice, so it is not compared
    wanted = ProfileRequest(profile.value.name, partition=partition, root=profile.value.paths.root)
    draft = adding.draft_profile(found, chosen, wanted)
    if refuses and (profile.value.refuses or isinstance(refuses, Gap) or refuses.value):
        draft = draft._replace(entries=(*draft.entries, refuses))
    draft = adding.complete_draft(draft, chosen, told, wanted)
    theirs = load_cluster(write.format_profile((), draft), "what was found").value
    result = compare.compare(profile, theirs, draft)
    account = compare.compare_account(profile, found.site, chosen)
    if account:
        result = result._replace(differences=(*result.differences, account))
    return CheckedProfile(file, profile, result, found, told.node if told else "")


def _slurm(
    profile: Loaded[ClusterProfile], found: Survey, chosen: Choice
) -> tuple[tuple[str, str], ...]:
    """The profile's options of sbatch; without an account that is not the user's."""
    wrong = "account" if compare.compare_account(profile, found.site, chosen) else ""
    options = profile.value.defaults.slurm.items()
    return tuple((name, v) for name, v in options if v is not None and name != wrong)


def _partition(profile: ClusterProfile) -> str:
    """The first partition that the profile's jobs go to; empty: the one that would be found."""
    return (profile.defaults.slurm.get("partition") or "").partition(",")[0]
