"""The cluster profiles that can be named, and where each comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from jobgen.app.world import World
from jobgen.errors import Diagnostic, Missing
from jobgen.model.record import Login, Site

if TYPE_CHECKING:
    from jobgen.catalog import Catalog, ClusterFile
    from jobgen.model.cluster import ClusterProfile
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
        return Site(profile.name, profile.scheduler, login, profile.paths.root, profile.accounting)


def list_profiles(world: World) -> tuple[ClusterFile, ...]:
    """Every profile that a name can reach, with what it hides."""
    return tuple(world.open_catalog().list_clusters())


def find(world: World, name: str | None, catalog: Catalog | None = None) -> Profile:
    """A profile by name or path. Raises Missing and Invalid."""
    from jobgen.load import load_cluster

    catalog = catalog or world.open_catalog()
    if not name:
        hint = f"add -c NAME, or cluster: NAME to the job file; {catalog.suggest()}"
        raise Missing("no cluster is named", hint=hint)
    file = catalog.find_cluster(name)
    world.texts.update(file.texts)
    return Profile(file, load_cluster(file.text, file.label, parent=file.parent))


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
    hint = f"jobgen cluster show {file.name} prints it"
    return (Diagnostic("J189", what, None, hint, "note"),) if hidden else ()
