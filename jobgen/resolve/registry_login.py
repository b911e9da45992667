"""How a container runtime gets the login of a registry: never in arguments, never in a log.

Sources: enroot, doc/cmd/import.md (``.credentials``); Apptainer User Guide, Environment variables
(``APPTAINER_DOCKER_USERNAME``); docs.docker.com, docker login (``--password-stdin``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic
from jobgen.resolve.inputs import Inputs
from jobgen.shell import quote, quote_expandable

if TYPE_CHECKING:
    from jobgen.model.container import Container

_HUB = ("auth.docker.io", "registry-1.docker.io")
_MORE = {"nvcr.io": ("authn.nvidia.com",)}
"""Registry → other hosts that ask for the login."""
_READ = r"""read_password() { # of a job that was started by hand, perhaps from its environment
    # shellcheck source=/dev/null
    [[ ! -r $JOBGEN_RUN_DIR/secrets.env ]] || source "$JOBGEN_RUN_DIR/secrets.env"
    printf '%s' "${SECRET:-}"
}"""
_DOCKER = r"""# Pull with a login in a configuration of its own, which is removed at once.
READ
pull() (
    files=$(mktemp -d) || exit
    trap 'rm -rf "$files"' EXIT
    trap 'exit 143' TERM INT HUP
    export DOCKER_CONFIG=$files
    read_password | docker login --username=USER --password-stdin REGISTRY >/dev/null &&
        docker pull --quiet IMAGE
)
pull || die 96 'docker cannot pull 'IMAGE"""
_APPTAINER = r"""# Registry login: apptainer reads it from its environment; it is unset inside.
READ
export APPTAINER_DOCKER_USERNAME=USER APPTAINER_DOCKER_PASSWORD
APPTAINER_DOCKER_PASSWORD=$(read_password)
[[ -n $APPTAINER_DOCKER_PASSWORD ]] || die 97 'secret SECRET is not set: add it to secrets.env'"""
_PYXIS = r"""# ---- Registry login: enroot reads a file, which is removed at the end ---------------
READ
export ENROOT_CONFIG_PATH=$JOBGEN_STATE_DIR/enroot.$JOBGEN_RESTART
log_in() (
    umask 077
    value=$(read_password)
    # enroot would take other text apart, or expand it
    [[ -n $value && $value != \$* && $value != *[[:space:]]* ]] || exit
    mkdir -p "$ENROOT_CONFIG_PATH" || exit
    # shellcheck disable=SC2016  # a user name may begin with a dollar
    for name in HOSTS; do
        printf 'machine %s login %s password %s\n' "$name" USER "$value"
    done >"$ENROOT_CONFIG_PATH/.credentials"
)
log_in || leave 97 'secret SECRET is not set, or no password that enroot can read'"""


def split_registry(image: str) -> str:
    """The host of an image's registry; empty for Docker Hub.

    >>> split_registry("docker://nvcr.io/nvidia/pytorch:25.09-py3")
    'nvcr.io'
    >>> split_registry("ubuntu:24.04")
    ''
    """
    name = image.partition("://")[2] or image
    host = re.split(r"[/#]", name)[0] if re.search(r"[/#]", name) else ""
    return host if re.search(r"[.:]|^localhost$", host) else ""


def write_login(asked: Container, image: str) -> str:
    """Bash that logs in before the container is entered; nothing without a login."""
    if asked.login is None:
        return ""
    text = {"docker": _DOCKER, "apptainer": _APPTAINER, "pyxis": _PYXIS}[asked.runtime]
    host, user = split_registry(asked.image), quote(asked.login.user)
    hosts = (host, *_MORE.get(host, ())) if host else _HUB
    values = {
        "SECRET": asked.login.secret,
        "USER": user,
        "REGISTRY": quote(host) if host else "",
        "IMAGE": quote_expandable(image),
        "HOSTS": " ".join(map(quote, hosts)),
    }
    names = rf"\b({'|'.join(values)})\b"
    return re.sub(names, lambda found: values[found[1]], text.replace("READ", _READ))


def check_login(look: Inputs, asked: Container) -> Iterator[Diagnostic]:
    """A login without its secret, or for an image that no registry has."""
    login = asked.login
    if login is None:
        return
    if login.secret not in {secret.name for secret in look.job.secrets}:
        message = f"container.login: '{login.secret}' is not listed under secrets"
        hint = f"add secrets: [{login.secret}]"
        yield look.diagnose_job("J153", message, "container", "login", "secret", hint=hint)
    if asked.image.startswith(("/", ".", "$", "~")) or asked.image.endswith((".sqsh", ".sif")):
        message = f"container.login is for the image of a registry, but {asked.image} is a file"
        yield look.diagnose_job("J216", message, "container", "login", hint="remove login")
