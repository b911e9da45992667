"""Ranks forked from a process that has imported torch: to import it costs more than to measure."""

from __future__ import annotations

import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping

from tests.ports import reserved_port


def run_ranks(count: int, program: Callable[[], None]) -> int:
    """0 where every rank ended well, else 1; the first that fails ends the others."""
    gc.freeze()  # else each rank's collector goes through, and so copies, all that was imported
    with reserved_port() as port:
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
        running = {_fork(program, {**meet, "RANK": r, "LOCAL_RANK": r}) for r in _ranks(count)}
        code = 0
        while running:
            pid, status = os.wait()
            running.discard(pid)
            if status and not code:
                code = 1
                for other in running:
                    os.kill(other, signal.SIGKILL)
    return code


def _ranks(count: int) -> list[str]:
    return [str(rank) for rank in range(count)]


def _fork(program: Callable[[], None], env: Mapping[str, str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ.update(env)
        program()
        code = 0
    except BaseException:  # noqa: BLE001 it must not come back into the loop of its parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # after several engines in one process, torch or DeepSpeed now and then ends it by abort()
        # when Python has gone: a thread of theirs is still there ("terminate called …")
        os._exit(code)
