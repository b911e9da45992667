"""``reproduce``: a run submitted again as it was, with every difference named before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from jobgen import __version__
from jobgen.app import image_changes
from jobgen.app.code_changes import CodeChanges
from jobgen.app.restoring import RestoredCode, restore_code
from jobgen.errors import JobgenError, Missing
from jobgen.named_tuple import NamedTuple
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.app.prepare import PreparedJob
    from jobgen.app.run_origin import KeptOrigin
    from jobgen.app.world import World
    from jobgen.model.origin import ProgramEnvironment, RunOrigin
    from jobgen.model.record import RunRecord
    from jobgen.transport import Transport

_FEW = 5
"""Packages that are named."""
_ASK = r"""
if [ -n "$1" ]; then
  if [ -x "$1" ]; then
    printf 'packages '
    "$1" -c 'import json
from importlib.metadata import distributions
print(json.dumps({d.metadata["Name"]: d.version for d in distributions()}))' 2>/dev/null || echo
  else
    echo 'gone'
  fi
fi
"""
"""$1 the program's Python: what of it is there now."""


class Reproduction(NamedTuple):
    """A run that is ready to be submitted again."""

    record: RunRecord
    ready: PreparedJob
    code: RestoredCode
    differences: tuple[str, ...]
    own: str = ""
    """How the folder of the job file differs, which is not used; empty if it does not."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a person is to know before it is submitted, each in one line."""
        notes = (f"note: {self.own}",) if self.own else ()
        return (*notes, *(f"difference: {text}" for text in self.differences))

    @property
    def job_file(self) -> Path:
        """The job file that the new run keeps as its own: the one of the old run."""
        return Path(self.record.job_file or self.record.alias)


@contextmanager
def prepare_reproduction(world: World, ref: str, cluster: str | None) -> Iterator[Reproduction]:
    """A run prepared again from what its run directory keeps; its code lies in a folder meanwhile.

    Raises Missing if its provenance or its code is gone, Unreachable, and Invalid as ``prepare``.
    """
    from jobgen.app.run_origin import read_kept

    record = world.ledger.get(ref)
    with TemporaryDirectory(prefix="jobgen-reproduce-") as folder:
        with world.connect(record.site.login) as transport:
            kept = read_kept(transport, record, patch=True)
            _check_kept(record, kept)
            code = restore_code(world, transport, record, kept, Path(folder))
            there = _ask_environment(transport, kept.environment)
            images = image_changes.find_images(transport, kept)
            stays = _compare_code(transport, record)
        assert kept.origin is not None  # noqa: S101  _check_kept has looked
        ready = _prepare(world, record, kept, code, cluster or record.profile)
        differences = [*_compare_versions(kept.origin), *code.differences, *stays]
        differences += _compare_profiles(kept.origin, ready)
        differences += _compare_scripts(world, record, ready)
        moved = ready.site.cluster != record.site.cluster
        if not moved:
            differences += _compare_environments(kept.environment, there)
            differences += image_changes.compare_images(kept, images)
        own = _describe_own_folder(record, kept.origin, ready)
        yield Reproduction(record, ready, code, tuple(differences), own)


def _check_kept(record: RunRecord, kept: KeptOrigin) -> None:
    """Raise if the provenance is missing, or is not what this machine sent."""
    if kept.origin is None:
        message = f"{record.alias} has no provenance on {record.site.cluster}, or prune removed it"
        hint = f"with the files as they are now: jobgen rerun {record.alias}"
        raise Missing(message, hint=hint)
    if kept.digest != record.shape.get("origin", kept.digest):
        raise JobgenError(
            f"the provenance of {record.alias} was changed on {record.site.cluster}",
            hint=f"with the files as they are now: jobgen rerun {record.alias}",
        )


def _prepare(
    world: World, record: RunRecord, kept: KeptOrigin, code: RestoredCode, cluster: str
) -> PreparedJob:
    from jobgen.app.prepare import GeneratedJob, prepare

    origin, before = kept.origin, Path(record.job_file).parent
    assert origin is not None  # noqa: S101
    known = bool(record.job_file) and before.is_dir() and "origin" in record.shape
    made = GeneratedJob(origin.label, before if known else code.job.parent)
    ready = prepare(world, code.job, cluster, record.sets or origin.sets, made=made)
    if ready.workdir.resolve() != code.workdir.resolve():
        message = f"the job file of {record.alias} names its workdir from ~/"
        raise Missing(message, hint=f"as it is now: jobgen rerun {record.alias}")
    fields = {name: getattr(origin, name) for name in CodeChanges._fields if name != "patch"}
    # secrets of the job's own folder are read there
    base = before if known else ready.base
    return ready._replace(base=base, changes=CodeChanges(patch=kept.patch, **fields))


def _describe_own_folder(record: RunRecord, origin: RunOrigin, ready: PreparedJob) -> str:
    """Which files of the user's own working directory are not those of the run."""
    from filecmp import cmp

    if not record.job_file or ready.manifest is None:
        return ""
    folder = Path(record.job_file).parent / origin.folder
    files = [file.path for file in ready.manifest.files]
    changed = [
        path
        for path in files
        if not (folder / path).is_file()
        or not cmp(folder / path, ready.workdir / path, shallow=False)
    ]
    if not changed:
        return ""
    more = f" and {count(len(changed) - 1, 'other file')}" if changed[1:] else ""
    return f"{folder} is not used: {changed[0]}{more} differ{'' if more else 's'} from the run"


# differences


def _compare_versions(origin: RunOrigin) -> list[str]:
    if origin.jobgen == __version__:
        return []
    return [f"jobgen was {origin.jobgen}, and is {__version__}"]


def _compare_profiles(origin: RunOrigin, ready: PreparedJob) -> list[str]:
    """Changed lines of the cluster's profile, or another cluster."""
    from difflib import unified_diff

    file = ready.cluster_file
    if file.name != origin.cluster:
        return [f"the cluster was {origin.cluster}, and is {file.name}"]
    before, now = origin.profile, file.texts
    if list(before.values()) == list(now.values()):
        return []
    lines = [
        line
        for old, new in zip([*before.values(), ""], [*now.values(), ""], strict=False)
        for line in unified_diff(old.split("\n"), new.split("\n"), n=0)
    ]
    changed = [ln for ln in lines if ln[:1] in "+-" and ln[:3] not in ("+++", "---")]
    return [f"the profile {file.name} changed: {count(len(changed), 'line')}"]


def _compare_scripts(world: World, record: RunRecord, ready: PreparedJob) -> list[str]:
    if ready.bundle.digest == record.digest:
        return []
    before = world.ledger.get_bundle(record.token)
    now = {file.path: file.content for file in ready.bundle.files}
    paths = sorted(p for p in {*before, *now} if before.get(p) != now.get(p))
    return [f"rendered files differ: {', '.join(paths) if before else 'all'}"]


def _compare_code(transport: Transport, record: RunRecord) -> list[str]:
    """What of code that stays on the cluster is not as it was at the newest start."""
    if not record.code_folder:
        return []
    from jobgen.app.code_folder import compare_code, find_code

    before = max(record.codes, key=lambda code: code.start, default=None)
    return [*compare_code(before, find_code(transport, record))]


def _ask_environment(
    transport: Transport, environment: ProgramEnvironment | None
) -> Mapping[str, str]:
    """Word → rest of each line that the host answered."""
    from jobgen.shell import build_script

    if environment is None:
        return {}
    # a Python inside of an image is not on the host
    python = "" if environment.image else environment.executable
    result = transport.call(build_script(_ASK, python), deadline=120.0)
    lines = result.out.decode("utf-8", "replace").split("\n")
    return {line.partition(" ")[0]: line.partition(" ")[2] for line in lines if line}


def _compare_environments(
    environment: ProgramEnvironment | None, there: Mapping[str, str]
) -> list[str]:
    """What is known to differ now: packages of the same Python, and the image file."""
    if environment is None:
        return ["the environment was not recorded"]
    texts = []
    if "gone" in there:
        texts.append(f"the Python of the run is gone: {environment.executable}")
    now = _read_packages(there.get("packages", ""))
    pairs = ((name, old, now.get(name, "")) for name, old in environment.packages.items())
    changed = [f"{name} {old} is {new}" for name, old, new in pairs if new and new != old]
    if changed:
        more = f" and {len(changed) - _FEW} more" if len(changed) > _FEW else ""
        texts.append(f"packages changed: {', '.join(changed[:_FEW])}{more}")
    return texts


def _read_packages(text: str) -> dict[str, str]:
    import re

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    entries = found.items() if isinstance(found, dict) else ()
    return {re.sub(r"[-_.]+", "-", name).lower(): str(version) for name, version in entries}
