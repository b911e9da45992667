"""A client that submits one run, and dies or is cut off where it is told to. Runs on the client.

    python -m tests.e2e.submitter '{"state": DIR, "token": …, "job": FILE, "profile": FILE, …}'

    die: N        kill -9 of itself at the Nth point: before and after each commit and each call
    fill: N       the disk with the file ``filler`` is full from the Nth point on
    up, down: N   its connection is reset after N bytes in that direction; with ``then: stall``
                  nothing more arrives
    options: […]  further words for sbatch
    end: true     it submits nothing, and looks until the run has ended

It prints the job id and the state as JSON, or the error. A later client with the same token goes
on with the same run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from jobgen.app.context import RunContext
from jobgen.app.observing import refresh
from jobgen.app.prepare import PreparedJob, prepare
from jobgen.app.submission_driver import carry_out
from jobgen.app.submit import make_payload
from jobgen.app.world import World
from jobgen.errors import JobgenError, Missing
from jobgen.ledger import Ledger
from jobgen.model.record import Login, RunRecord
from jobgen.shell import Result
from jobgen.submission.exchange import list_run_files, make_record
from jobgen.transport import Payload, Transport, connect
from tests.transport.proxy import Proxy, Way
from tests.waiting import HANG


class Mortal:
    """Counts the points at which it can die, or its disk be full."""

    def __init__(self, die: int, fill: int, filler: str) -> None:
        self.left, self.room, self.filler = die, fill, filler

    def point(self) -> None:
        self.left -= 1
        self.room -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.room == 0:
            with suppress(OSError), Path(self.filler).open("wb", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass


class MortalLedger(Ledger):
    """A ledger whose process may die before and after each commit."""

    mortal: Mortal

    def begin(self, *args: Any, **values: Any) -> RunRecord:
        return self._around(super().begin, *args, **values)

    def update(self, *args: Any, **values: Any) -> RunRecord:
        return self._around(super().update, *args, **values)

    def _around(self, done: Callable[..., RunRecord], *args: Any, **values: Any) -> RunRecord:
        self.mortal.point()
        result = done(*args, **values)
        self.mortal.point()
        return result


class MortalLink:
    """A connection whose process may die before, within and after each call."""

    def __init__(self, transport: Transport, mortal: Mortal) -> None:
        self.transport, self.mortal = transport, mortal

    def call(self, script: str, payload: Payload | None = None, **values: Any) -> Result:
        self.mortal.point()
        if payload is not None:
            payload = Payload(payload.size, self._watched(payload))
        result = self.transport.call(script, payload, **values)
        self.mortal.point()
        return result

    def _watched(self, payload: Payload) -> Any:
        for chunk in payload.chunks:
            self.mortal.point()
            yield chunk

    def close(self) -> None:
        self.transport.close()


def main(what: dict[str, Any]) -> dict[str, Any]:
    """Submit, or go on with submitting."""
    world = World.here()
    mortal = Mortal(what.get("die", 0), what.get("fill", 0), what.get("filler", ""))
    ledger = MortalLedger(Path(what["state"]) / "ledger.sqlite3")
    ledger.mortal = mortal
    if what.get("end"):
        return _known(_ended(world, ledger, what["token"]))
    ready = prepare(world, Path(what["job"]), what["profile"])
    record = _record(ledger, ready, what["token"])
    if record.job is None and not record.ended:
        link = MortalLink(connect(_login(what)), mortal)
        context = RunContext(
            link,  # type: ignore[arg-type]
            ledger,
            world.now,
            world.sleep,
            world.say,
            patience=what.get("patience", 40.0),
        )
        files = list_run_files(record, ready.bundle)
        options = (*ready.plan.submit_options, *what.get("options", ()))
        record = carry_out(
            record, lambda: make_payload(world, ready, files), context, options=options
        )
    return _known(record)


def _known(record: RunRecord) -> dict[str, Any]:
    names = ("job", "state", "reason", "directory", "digest")
    return {name: str(getattr(record, name)) for name in names}


def _ended(world: World, ledger: Ledger, token: str) -> RunRecord:
    """The run, once it has ended, or after some minutes."""
    record = ledger.get(token)
    with connect(Login("paramiko", "testbed")) as link:
        for _ in range(int(HANG)):
            if record.ended:
                break
            world.sleep(1.0)
            looks = refresh((record,), RunContext(link, ledger, world.now, world.sleep, world.say))
            record = looks[0]
    return record


def _record(ledger: Ledger, ready: PreparedJob, token: str) -> RunRecord:
    try:
        return ledger.get(token)
    except Missing:
        return ledger.begin(
            make_record(ready.plan, ready.bundle.digest, ready.site, token=token), ready.bundle
        )


def _login(what: dict[str, Any]) -> Login:
    then = what.get("then", "cut")
    faults: dict[str, Any] = {n: Way(what[n], then) for n in ("up", "down") if n in what}
    if not faults:
        return Login("paramiko", "testbed")
    proxy = Proxy(22, host="login", **faults)
    return Login("paramiko", "cut", port=proxy.port)


if __name__ == "__main__":
    try:
        answer = main(json.loads(sys.argv[1]))
    except JobgenError as error:
        answer = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(answer), flush=True)
    # the proxy's thread needs no good-bye
    os._exit(0)
