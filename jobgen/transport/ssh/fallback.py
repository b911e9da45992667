"""ssh_config without an ssh program: read by paramiko, and only what paramiko reads rightly."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import paramiko

from jobgen.errors import Diagnostic, Unreachable

_UNREAD = re.compile(r"^\s*(include|match)\b", re.IGNORECASE | re.MULTILINE)


def read_options(host: str, user: str, port: int | None) -> dict[str, list[str]]:
    """The options of a host. Raises Unreachable for a file with Include or Match in it.

    paramiko (5.1) takes Include for an unknown key and applies some Match blocks to every host.
    """
    path = Path(os.environ.get("JOBGEN_SSH_CONFIG") or Path.home() / ".ssh" / "config")
    found: dict[str, list[str]] = {}
    if path.is_file():
        text = path.read_text("utf-8", "replace")
        if _UNREAD.search(text):
            problem = Diagnostic(
                "J401",
                f"{path} has Include or Match, which only the ssh program reads rightly, and "
                "there is none on PATH",
                hint="install the OpenSSH client",
            )
            raise Unreachable(problem)
        looked_up: Mapping[str, Any] = paramiko.SSHConfig.from_text(text).lookup(host)
        for key, value in looked_up.items():
            found[key] = list(value) if isinstance(value, list) else [str(value)]
    home = Path.home() / ".ssh"
    kinds = ("id_rsa", "id_ecdsa", "id_ed25519")
    found.setdefault("identityfile", [str(home / kind) for kind in kinds])
    found.setdefault("userknownhostsfile", [f"{home / 'known_hosts'}"])
    found.setdefault("globalknownhostsfile", ["/etc/ssh/ssh_known_hosts"])
    found |= {"user": [user]} if user else {}
    found |= {"port": [str(port)]} if port else {}
    return found
