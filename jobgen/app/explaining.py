"""What the codes of messages, the keys of the two files and environment variables mean."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from jobgen.errors import Missing
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.data.env_variables import EnvVariable, Hearsay, OwnVariable
    from jobgen.data.message_codes import Code
    from jobgen.data.plan_words import PlanWord
    from jobgen.fabric.variables import VariableDiagnostic
    from jobgen.load.key_reference import KeyEntry


class Explained(NamedTuple):
    """What was asked for: codes, or keys, or variables, or what hearsay says of a name."""

    codes: tuple[Code, ...] = ()
    variables: tuple[EnvVariable, ...] = ()
    hearsay: tuple[Hearsay, ...] = ()
    variable: str = ""
    """The word that was asked for, where it is a variable."""
    more: int = 0
    """Variables that are known besides."""
    family: bool = False
    """Whether the codes were asked for by a pattern."""
    findings: tuple[VariableDiagnostic, ...] = ()
    """What the judge says of ``NAME=VALUE``, where nothing is known of the cluster."""
    keys: tuple[KeyEntry, ...] = ()
    """One in full, or a list where a pattern was asked for."""
    below: tuple[KeyEntry, ...] = ()
    """The keys inside the first of ``keys``."""
    others: tuple[KeyEntry, ...] = ()
    """Keys of the same name elsewhere."""
    own: tuple[OwnVariable, ...] = ()
    """Variables of jobgen itself."""
    words: tuple[PlanWord, ...] = ()
    """A word of the plan, or all of them."""
    programs: tuple[tuple[str, str], ...] = ()
    """Framework → what its programs call the settings that the fixes of a code change."""


def explain(word: str | None) -> Explained:
    """A code, a key, a variable, a word of a screen (``tight``, ``fsdp2``), all of a family
    (``J13*``, ``NCCL_IB_*``, ``words``), or all codes.

    A word that is several of these is the first; one of the plan that is a key is both. A key of
    job.yaml goes before one of cluster.yaml. Raises Missing with the nearest word.
    """
    from jobgen.data.message_codes import codes

    known = codes()
    if word is None:
        from jobgen.data.env_variables import catalogue, hearsay

        return Explained(tuple(known.values()), more=len(catalogue()) + len(hearsay()))
    if fits := tuple(code for name, code in known.items() if fnmatchcase(name, word.upper())):
        return _explain_code(*fits) if "*" not in word else Explained(fits, family=True)
    if "*" in word:
        found = _list_fitting_keys(word) or _family(word)
    else:
        found = next((hit for find in _FINDERS if (hit := find(word)) is not None), None)
    if found is None:
        raise _missing(word)
    return found


def _find_key(word: str) -> Explained | None:
    """The key with this path, or else with this name inside another one."""
    from jobgen.load.key_reference import list_keys

    every = tuple(list_keys())
    name = word.removesuffix(":")
    exact = [key for key in every if key.path == name]
    named = [key for key in every if key.path.rpartition(".")[2] == name and key not in exact]
    if not exact and not named:
        return None
    first, *others = exact + named
    inside = [k for k in every if k.file == first.file and k.path.startswith(f"{first.path}.")]
    below = tuple(k for k in inside if "." not in k.path.removeprefix(f"{first.path}."))
    words = _list_words(name)
    return Explained(keys=(first,), below=below, others=tuple(others), words=words)


def _list_fitting_keys(pattern: str) -> Explained | None:
    from jobgen.load.key_reference import list_keys

    fits = tuple(key for key in list_keys() if fnmatchcase(key.path, pattern))
    return Explained(keys=fits, family=True) if fits else None


def _find_cause(word: str) -> Explained | None:
    """The code of a cause of ``diagnose --json``."""
    from jobgen.data.causes import causes
    from jobgen.data.message_codes import codes

    cause = causes().get(word.lower())
    return _explain_code(codes()[cause.code]) if cause else None


def _explain_code(code: Code) -> Explained:
    """A code; with the settings of ``train`` in its fixes as programs call them."""
    from jobgen.app.program_settings import list_names

    return Explained((code,), programs=tuple(list_names(code.right)))


def _find_shown(word: str) -> Explained | None:
    """The code that a word of a screen belongs to."""
    from jobgen.data.message_codes import codes

    code = next((code for code in codes().values() if word.lower() in code.words), None)
    return _explain_code(code) if code else None


def _find_word(word: str) -> Explained | None:
    """A word of the plan, ``MFU``; all of them by ``words``."""
    known = _list_words(word)
    return Explained(words=known, family=len(known) > 1) if known else None


def _list_words(word: str) -> tuple[PlanWord, ...]:
    from jobgen.data.plan_words import plan_words

    known = plan_words()
    if word.lower() == "words":
        return tuple(dict.fromkeys(known.values()))
    return (known[word.lower()],) if word.lower() in known else ()


def _find_value(word: str) -> Explained | None:
    """The keys that this may be written for; of one inside another that is alike, the inner."""
    from jobgen.load.key_reference import list_keys

    fits = [key for key in list_keys() if f"`{word.lower()}`" in key.values]
    inner = [k for k in fits if not any(o.path.startswith(f"{k.path}.") for o in fits)]
    if not inner or word.lower() in ("true", "false"):
        return None
    return Explained(keys=tuple(inner), family=len(inner) > 1)


def _find_own(word: str) -> Explained | None:
    from jobgen.data.env_variables import own_variables

    name = word.removeprefix("$").upper()
    own = own_variables()
    row = own.get(name) or own.get(re.sub(r"^(JOBGEN_(HOSTS?|PORT)_)\w+$", r"\1NAME", name))
    return Explained(own=(row,)) if row else None


def _variable(word: str) -> Explained | None:
    """A name, ``NAME=VALUE``, or a row of the table of hearsay as it stands there."""
    from jobgen.data.env_variables import catalogue, hearsay, variable, wrong

    name, equals, value = word.partition("=")
    name = _spelled(name.strip(), [*catalogue(), *(n for n, _ in hearsay())])
    row = variable(name)
    said = {h.entry: h for (n, v), h in hearsay().items() if h.entry == word.strip()}
    if equals:
        found = wrong(name, value)
        said |= {found.entry: found} if found else {}
    else:
        said |= {h.entry: h for (n, _), h in hearsay().items() if n == name}
    if row is None and not said:
        return None
    asked = word.strip() if word.strip() in said and not equals else name
    rows = (row,) if row else ()
    return Explained((), rows, tuple(said.values()), asked, findings=_judged(row, equals, value))


_FINDERS = (
    _find_key,
    _variable,
    _find_own,
    _find_cause,
    _find_word,
    _find_shown,
    _find_value,
)
"""The kinds of words that ``explain`` takes, the first that knows a word before the others."""


def _judged(row: EnvVariable | None, equals: str, value: str) -> tuple[VariableDiagnostic, ...]:
    if row is None or not equals:
        return ()
    from jobgen.fabric.variables import Context, judge

    return judge(row.name, value, Context(others={row.name: value}))


def _family(word: str) -> Explained | None:
    """Every variable that fits a pattern with *."""
    from jobgen.data.env_variables import catalogue, hearsay, own_variables

    parts = (re.escape(part) for part in word.split("*"))
    pattern = re.compile(".*".join(parts), re.IGNORECASE)
    rows = tuple(row for name, row in catalogue().items() if pattern.fullmatch(name))
    said = {h.entry: h for (name, _), h in hearsay().items() if pattern.fullmatch(name)}
    own = tuple(
        row
        for name, row in own_variables().items()
        if pattern.fullmatch(name) and name not in catalogue()
    )
    if not rows and not said and not own:
        return None
    return Explained(variables=rows, hearsay=tuple(said.values()), variable=word, own=own)


def _spelled(word: str, names: list[str]) -> str:
    """The name as it is written, whatever its case was."""
    if word in names:
        return word
    lower = word.lower()
    return next((name for name in names if name.lower() == lower), word.upper())


def _missing(word: str) -> Missing:
    codelike = re.fullmatch(r"(?i)j\d\w*", word) is not None
    what = "code" if codelike else "code, key or variable"
    hint = _suggest_code(word) if codelike else _suggest_name(word)
    return Missing(f"no {what} '{word}'", hint=f"{hint}all codes: jobgen explain 'J*'")


def _suggest_code(word: str) -> str:
    from jobgen.data.message_codes import codes

    return _ask_nearest(word.upper(), list(codes()))


def _suggest_name(word: str) -> str:
    """What another tool's key is called here, else the nearest key or variable."""
    from jobgen.data.env_variables import catalogue, hearsay, own_variables
    from jobgen.data.plan_words import plan_words
    from jobgen.load.aliases import translate
    from jobgen.load.hint_values import fill
    from jobgen.load.key_reference import list_keys
    from jobgen.model.job import JobSpec

    write = translate("job", (word,)) if word else ""
    if write:
        return f"in job.yaml, write {fill(write, word, None, JobSpec)}; "
    if not word.isupper():
        paths = [key.path for key in list_keys()]
        names = dict.fromkeys([*paths, *(path.rpartition(".")[2] for path in paths), *plan_words()])
        if near := _ask_nearest(word, list(names)):
            return near
    variables = [*own_variables(), *catalogue(), *(name for name, _ in hearsay())]
    return _ask_nearest(word.upper(), variables)


def _ask_nearest(word: str, words: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, words, 1)
    return f"did you mean {near[0]}? " if near else ""
