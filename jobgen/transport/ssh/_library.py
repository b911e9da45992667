"""paramiko, imported without ``invoke``.

paramiko wants it for the ``Match exec`` of ssh configurations that it reads itself, which it is
never asked to do here, and can do without; half of the time of its import goes there.
"""

from __future__ import annotations

import sys

_UNUSED = "invoke"

if _UNUSED not in sys.modules:
    sys.modules[_UNUSED] = None  # type: ignore[assignment]
    try:
        import paramiko  # noqa: F401
    finally:
        del sys.modules[_UNUSED]
