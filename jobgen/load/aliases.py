"""What an unknown key may mean: another tool's word, a misspelt one, one of another section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobgen.model.form import Form, Key

Path = tuple[str | int, ...]


# Keys of ssh that are refused on purpose, each with its why.
REFUSED_SSH = {
    "forward_agent": "agent forwarding gives root on that host access to your keys",
    "forward_x11": "X11 forwarding gives the other side access to your display",
    "x11": "X11 forwarding gives the other side access to your display",
    "strict_host_key_checking": "host keys are always verified",
    "host_key_checking": "host keys are always verified",
    "insecure": "host keys are always verified",
    "verify_host_key": "host keys are always verified",
    "known_hosts": "host keys are verified against your own known_hosts",
    "user_known_hosts_file": "host keys are verified against your own known_hosts",
    "known_hosts_file": "host keys are verified against your own known_hosts",
    "proxy_command": "it would run a command from a profile that others may have written",
    "local_command": "it would run a command from a profile that others may have written",
    "password": (
        "passwords must not be stored in a file; use a key, an agent or keyboard-interactive login"
    ),
    "passphrase": "passphrases must not be stored in a file; use an agent",
    "options": "ssh options belong in your ~/.ssh/config",
    "config": "ssh options belong in your ~/.ssh/config",
}


def normalize_key(word: str) -> str:
    """A key without its dialect: ForwardAgent, forward-agent and forward_agent are one."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in word).strip("_")
    plain = snake.replace("-", "_").replace(" ", "_")
    return plain if "_" in plain or word.islower() else word.lower()


def translate(file: str, path: Path) -> str:
    """What to write in this file (``job`` or ``cluster``) instead of another tool's word."""
    from jobgen.load.foreign_keys import FOREIGN

    return FOREIGN.get((file, *_section(path), normalize_key(str(path[-1]))), "")


def explain_absence(file: str, path: Path) -> str:
    """Why jobgen has no key for another tool's word, or what to do instead; empty if unknown."""
    from jobgen.load.foreign_keys import NO_SUCH_KEY

    return NO_SUCH_KEY.get((file, *_section(path), normalize_key(str(path[-1]))), "")


def _section(path: Path) -> tuple[str, ...]:
    """The name of the mapping that a key stands in; nothing at the top of the file."""
    above = [str(step) for step in path[:-1] if not str(step).isdigit()]
    return tuple(above[-1:])


def find_sibling(path: Path, siblings: Mapping[str, Key]) -> str:
    """The key beside this one that was probably meant; empty where none is near."""
    from jobgen.model.fields import find_nearest

    words: Sequence[str] = [n for n, k in siblings.items() if not k.hidden]
    word = normalize_key(str(path[-1]))
    return word if word in words else find_nearest(word, words, 0.7)


def find_section(word: str, top: type[Form]) -> str:
    """The mapping of this form that has such a key, as ``checkpoint``; empty where none has."""
    for name, key in top.keys.items():
        inner = get_form(key)
        if inner is not None and word in inner.keys and not inner.keys[word].hidden:
            return name
    return ""


def get_item_form(key: Key) -> type[Form] | None:
    """The form of each item of a list, or of each value of a table of names; None where there is
    none."""
    schema = key.check.schema
    items = [schema.get("items", {}), schema.get("additionalProperties", {})]
    return next((s["form"] for s in items if s and isinstance(s.get("form"), type)), None)


def get_form(key: Key) -> type[Form] | None:
    """The form that a key's value is, or each item of it; None where it is none."""
    schema = key.check.schema
    options = [schema, *schema.get("anyOf", ()), schema.get("items", {})]
    return next((s["form"] for s in options if isinstance(s.get("form"), type)), None)
