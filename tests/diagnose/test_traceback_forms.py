"""Tracebacks of exception groups, loguru, notebooks, process pools, and inside JSON."""

from __future__ import annotations

import json

import pytest

from jobgen.diagnose.tracebacks import find_own_place
from tests.diagnose.logs import diagnose, diagnose_failure

TRACE = """\
Traceback (most recent call last):
  File "/home/user/data.py", line 12, in fetch
    return table[key]
LookupFailed: no shard 7"""

GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "/home/user/train.py", line 30, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/home/user/data.py", line 12, in fetch
    |     return table[key]
    | LookupFailed: no shard 7
    +------------------------------------"""

LOGURU = """\
2026-05-06 11:22:33.444 | ERROR    | __main__:<module>:48 - An error has been caught in function
Traceback (most recent call last):

> File "/home/user/train.py", line 48, in <module>
    main()
    └ <function main at 0x7f1>

  File "/home/user/data.py", line 12, in fetch
    return table[key]
           │     └ 7
           └ {}

LookupFailed: no shard 7"""

NOTEBOOK = """\
---------------------------------------------------------------------------
LookupFailed                              Traceback (most recent call last)
Cell In[4], line 2
      1 opt = read()
----> 2 train(opt)

File /home/user/data.py:12, in fetch(table, key)
     11 key = str(key)
---> 12 return table[key]

LookupFailed: no shard 7"""

POOL = f'''\
multiprocessing.pool.RemoteTraceback:
"""
{TRACE}
"""

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/home/user/train.py", line 3, in <module>
    pool.map(fetch, keys)
  File "/usr/lib/python3.11/multiprocessing/pool.py", line 774, in get
    raise self._value
LookupFailed: no shard 7'''


@pytest.mark.parametrize(
    "text", [GROUP, LOGURU, NOTEBOOK, POOL], ids=("group", "loguru", "notebook", "pool")
)
def test_an_exception_in_another_form_has_its_line_of_the_program(text: str) -> None:
    cause = diagnose_failure("step 1 loss 0.5", *text.split("\n"))
    assert (cause.kind, cause.text) == ("exception", "LookupFailed: no shard 7")
    assert find_own_place(cause.lines) == "/home/user/data.py:12"
    assert not cause.all_ranks


def _log(level: str) -> str:
    return json.dumps({"level": level, "event": "run failed", "exception": f"{TRACE}\n", "rank": 3})


def test_a_traceback_in_a_string_of_json_is_one() -> None:
    cause = diagnose_failure("step 1 loss 0.5", _log("error"))
    assert (cause.kind, cause.text) == ("exception", "LookupFailed: no shard 7")
    assert find_own_place(cause.lines) == "/home/user/data.py:12"


def test_a_traceback_that_json_logs_as_a_warning_is_none() -> None:
    assert diagnose("step 1 loss 0.5", _log("warning"), "step 2 loss 0.4") is None


def test_a_known_error_goes_before_the_unknown_one_that_it_was_raised_from() -> None:
    cause = diagnose_failure(
        *TRACE.split("\n"),
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "Traceback (most recent call last):",
        '  File "/home/user/train.py", line 3, in <module>',
        "    torch.load(path)",
        "RuntimeError: PytorchStreamReader failed reading zip archive",
    )
    assert cause.kind == "checkpoint_damaged"
    assert any("LookupFailed" in line for line in cause.lines)
