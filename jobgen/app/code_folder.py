"""Code that stays on a cluster: where it is, and whether it is what a run had."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.errors import Missing
from jobgen.model.events import CodeRecord
from jobgen.submission import scripts, wire
from jobgen.wording import count

if TYPE_CHECKING:
    from jobgen.model.record import RunRecord
    from jobgen.transport import Transport


def find_code(transport: Transport, record: RunRecord) -> CodeRecord:
    """The code of a run as it is now. Raises Missing if its directory is gone."""
    result = transport.call(scripts.find_code(record.code_folder), deadline=120.0)
    try:
        reply = wire.index(wire.split_frames(result.out))
    except wire.GarbledError:
        reply = {}
    path = reply.get("path", "")
    if not path.startswith("/"):
        where = f"{record.code_folder} on {record.site.cluster}"
        raise Missing(f"the code of {record.alias} is gone: there is no directory {where}")
    changed = wire.parse_number(reply.get("changed", ""))
    return CodeRecord(
        0,
        path,
        reply.get("commit", ""),
        None if changed is None else int(changed),
        reply.get("diff", ""),
    )


def compare_code(before: CodeRecord | None, now: CodeRecord) -> Iterator[str]:
    """What of the code is not as a run had it."""
    if before is None:
        yield f"the commit of {now.at} was not recorded"
    elif not now.commit or not before.commit:
        yield f"{now.at} is not in git, so its changes are unknown"
    elif now.commit != before.commit:
        yield f"the commit of {now.at} was {before.commit[:12]}, and is {now.commit[:12]}"
    elif now.diff != before.diff or not now.diff:
        texts = [_count_changes(each) for each in (before, now)]
        yield f"uncommitted changes in {now.at} differ: {texts[0]} then, {texts[1]} now"


def _count_changes(code: CodeRecord) -> str:
    return "unknown" if code.changed is None else count(code.changed, "file")
