"""The cluster profiles that can be named, and where each comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jobgen.app.world import World
from jobgen.errors import Diagnostic, Invalid, Missing
from jobgen.model.record import Login, Site
from jobgen.model.units import clip
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.catalog import Catalog, ClusterFile
    from jobgen.data.machines import Group
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.job import JobSpec
    from jobgen.model.loaded import Loaded


class Profile(NamedTuple):
    """A profile's file, and what was read from it."""

    file: ClusterFile
    loaded: Loaded[ClusterProfile]

    @property
    def site(self) -> Site:
        """What later verbs need of this profile: its name, login, root directory and accounting."""
        profile = self.loaded.value
        login = Login("local")
        if profile.ssh:
            ssh = profile.ssh
            login = Login(ssh.backend, ssh.host, ssh.user, ssh.port, ssh.fingerprint, ssh.auth)
            login = login._replace(known_hosts_too=self.file.of_project)
        site = Site(profile.name, profile.scheduler, login, profile.paths.root, profile.accounting)
        simulated = profile.nodes.count if profile.scheduler == "local" and profile.nodes else None
        return site._replace(nodes=simulated or 0)


class GroupProfiles(NamedTuple):
    """The profiles that the groups of a job name, and those that cannot be read."""

    profiles: Mapping[str, Loaded[ClusterProfile]]
    problems: tuple[Diagnostic, ...]


class ListedProfile(NamedTuple):
    """A profile that a name reaches, as a list shows it."""

    file: ClusterFile
    cluster: ClusterProfile | None
    """None if the file has errors, or if it was not read."""
    group: Group
    provider: str
    """Whose machine a shipped profile describes; empty for others."""


LOCAL = "local"
"""The shipped profile of this machine."""
GROUPS: tuple[Group, ...] = ("yours", "project", "this machine", "cloud", "on-premises")
"""Groups of profiles in the order of a list."""


def list_profiles(
    world: World, word: str = "", *, brief: bool = False
) -> tuple[ListedProfile, ...]:
    """Every profile that a name reaches, or those that match a word, in the order of GROUPS.

    ``brief`` reads no shipped profile but that of this machine. Raises Missing if none matches.
    """
    from jobgen.data.machines import is_match

    catalog = world.open_catalog()
    files = [f for f in catalog.list_clusters() if not word or is_match(word, f.traits)]
    if not files:
        example = "name a GPU, a provider or a network, as in: jobgen cluster ls h100"
        hint = catalog.suggest_near(word) or example
        raise Missing(Diagnostic("J182", f"no cluster profile matches '{clip(word)}'", None, hint))
    listed = (_list_profile(file, brief=brief) for file in files)
    return tuple(sorted(listed, key=lambda each: GROUPS.index(each.group)))


def name_folder(world: World) -> str:
    """The folder of the user's own profiles, as they would write it."""
    folder = world.config / "clusters"
    below = folder.is_relative_to(world.home)
    return f"~/{folder.relative_to(world.home)}" if below else str(folder)


def _list_profile(file: ClusterFile, *, brief: bool) -> ListedProfile:
    from jobgen.catalog import OWN, SHIPPED
    from jobgen.data.machines import find_provider
    from jobgen.load import load_cluster

    provider = find_provider(file.name)
    if brief and file.origin == SHIPPED and file.name != LOCAL:
        return ListedProfile(file, None, provider.group, provider.name)
    try:
        cluster = load_cluster(file.text, file.label, parent=file.parent).value
    except Invalid:
        cluster = None
    if file.origin != SHIPPED:
        return ListedProfile(file, cluster, "yours" if file.origin == OWN else "project", "")
    if file.name == LOCAL:
        return ListedProfile(file, cluster, "this machine", "")
    return ListedProfile(file, cluster, provider.group, provider.name)


def find(world: World, name: str | None, catalog: Catalog | None = None) -> Profile:
    """A profile by name or path. Raises Missing and Invalid."""
    from jobgen.load import load_cluster

    catalog = catalog or world.open_catalog()
    if not name:
        hint = f"{catalog.suggest()}; or set cluster: in the job file"
        raise Missing("no cluster selected", hint=hint)
    file = catalog.find_cluster(name)
    world.texts.update(file.texts)
    return Profile(file, load_cluster(file.text, file.label, parent=file.parent))


def find_for_groups(
    world: World, spec: Loaded[JobSpec], cluster: ClusterProfile, catalog: Catalog
) -> GroupProfiles:
    """The profiles that groups name. On the local cluster all groups run on this machine."""
    profiles: dict[str, Loaded[ClusterProfile]] = {}
    problems: list[Diagnostic] = []
    named = [group for group in spec.value.groups if group.cluster]
    for group in named if cluster.scheduler != "local" else ():
        name = group.cluster or ""
        try:
            profiles[name] = find(world, name, catalog).loaded
        except Missing as error:
            place = spec.find_place("groups", group.name, "cluster")
            problems += [problem._replace(place=place) for problem in error.problems]
        except Invalid as error:
            problems += error.problems
    return GroupProfiles(profiles, tuple(problems))


def note_hidden(file: ClusterFile) -> tuple[Diagnostic, ...]:
    """Notes on profiles that are hidden by another's name, where that may surprise."""
    from jobgen.catalog import SHIPPED

    hidden = file.shadows
    if file.of_project:
        hidden = tuple(other for other in hidden if other.origin == SHIPPED)
        what = f"the profile {file.name} is {file.label}, not the one that ships with jobgen"
    else:
        hidden = tuple(other for other in hidden if other.origin != SHIPPED)
        names = " and ".join(other.label for other in hidden)
        what = f"the profile {file.name} is {file.origin}, {file.label}, not {names}"
    hint = f"see it: jobgen cluster show {file.name}"
    return (Diagnostic("J189", what, None, hint, "note"),) if hidden else ()
