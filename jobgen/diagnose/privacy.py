"""Evidence that is kept: tokens, logins and home directories are masked."""

from __future__ import annotations

import re

from jobgen.data.secret_rules import mask_tokens
from jobgen.model.cause import FailureCause

_LOGIN = re.compile(r"\b[A-Za-z_][\w.+-]{0,63}@[A-Za-z0-9][\w.-]{0,252}")
_HOME = re.compile(
    r"(?P<below>(?<=[\w.~-]))?/(?P<homes>home|users|Users|u|export/home)/[A-Za-z_][\w.-]*"
)


def mask_private(text: str) -> str:
    """The text without tokens, without logins (also e-mail addresses), and with ``~`` for homes.

    Of a home below other folders only the name is masked, so that the path stays one.

    >>> mask_private("ann@login2: /home/ann/train.py: hf_abcdefghijklmnopqrstuvwxyz01234567")
    '***@***: ~/train.py: ***'
    >>> mask_private("/nfs/home/ann/train.py")
    '/nfs/home/***/train.py'
    """
    return _HOME.sub(_mask_home, _LOGIN.sub("***@***", mask_tokens(text)))


def _mask_home(home: re.Match[str]) -> str:
    return "~" if home["below"] is None else f"/{home['homes']}/***"


def mask_cause(cause: FailureCause) -> FailureCause:
    """The cause as it is kept. Nodes stay: they say where it happened."""
    lines = tuple(map(mask_private, cause.lines))
    last = tuple(map(mask_private, cause.last_lines))
    text, says = mask_private(cause.text), mask_private(cause.says)
    return cause._replace(text=text, lines=lines, says=says, last_lines=last)
