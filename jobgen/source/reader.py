"""One walk over the events of a YAML file: data, places, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from jobgen.errors import Diagnostic, Place
from jobgen.source.characters import SHOWN
from jobgen.source.scalars import resolve_scalar

DEPTH = 50
"""How deep mappings and lists may nest."""
NODES = 10_000
"""How many keys and values a file may hold."""

Path = tuple[str | int, ...]

_ALIAS = "write the value out again"


class _Stop(Exception):
    """The rest of the file cannot be read."""


class YamlReader:
    """One walk over the events of a file."""

    def __init__(self, label: str, text: str) -> None:
        self.label = label
        self.text = text
        self.data: Any = None
        self.places: dict[Path, Place] = {}
        self.values: dict[Path, Place] = {}
        self.spoiled: set[Path] = set()
        self.problems: list[Diagnostic] = []
        self.count = 0
        self.muted = 0
        self.events: Iterator[Any] = iter(())

    def read(self) -> None:
        """Walk over all events; what is found stands in the attributes."""
        try:
            self.events = yaml.parse(self.text, Loader=yaml.CSafeLoader)
            self._document()
        except _Stop:
            pass
        except yaml.YAMLError as error:
            from jobgen.source.syntax import explain_error

            problems, tabs = explain_error(error, self.label, self.text)
            # what the top is cannot be told from half a file
            self.problems = [p for p in self.problems if p.code != "J104"]
            if tabs:
                self._again()
            self.problems += problems

    def _again(self) -> None:
        """Read as if the tabs were spaces, so that the other problems are found too."""
        from jobgen.source.syntax import expand_tabs

        again = YamlReader(self.label, expand_tabs(self.text))
        again.read()
        self.data, self.places, self.values = again.data, again.places, again.values
        self.spoiled = again.spoiled
        self.problems = [p for p in again.problems if p.code != "J105"]

    def _document(self) -> None:
        next(self.events)
        if isinstance(next(self.events), yaml.StreamEndEvent):
            return self._empty()
        first = next(self.events)
        self.data = self._node(first, (), 0)
        if self.data is None and isinstance(first, yaml.ScalarEvent) and first.value == "":
            return self._empty()
        if not isinstance(first, yaml.MappingStartEvent) and not self.spoiled:
            kind = "list" if isinstance(first, yaml.SequenceStartEvent) else "text"
            message = f"expected a mapping at the top level, got a {kind}"
            self._say("J104", message, first, "write lines of the form key: value")
        next(self.events)
        after = next(self.events)
        if isinstance(after, yaml.DocumentStartEvent):
            message = "a second document starts here, but a file may contain only one"
            self._say("J113", message, after, "put it into a separate file")
        return None

    def _empty(self) -> None:
        hint = (
            "a job needs at least name, run, nodes and time; write one: jobgen init; "
            "see all keys: jobgen schema job"
        )
        self.problems.append(Diagnostic("J101", "the file is empty", Place(self.label), hint))

    def _node(self, event: Any, path: Path, depth: int) -> Any:
        self.count += 1
        if self.count > NODES:
            self._stop(f"the file contains more than {NODES} values", event)
        if depth > DEPTH:
            self._stop(f"mappings and lists are nested deeper than {DEPTH}", event)
        if not self.muted:
            self.values[path] = self._place(event)
        if isinstance(event, yaml.AliasEvent):
            self._say("J107", f"alias '*{event.anchor}': aliases are not supported", event, _ALIAS)
            return self._spoil(path)
        self._marks(event)
        if event.tag is not None:
            self._spoil(path)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style is None or not event.style
            return resolve_scalar(event.value) if plain else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        return self._mapping(path, depth)

    def _sequence(self, path: Path, depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            below = (*path, len(items))
            if not self.muted:
                self.places[below] = self._place(event)
            items.append(self._node(event, below, depth + 1))
        return items

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := next(self.events), yaml.MappingEndEvent):
            key = self._key(event, path, depth)
            below = (*path, key if key is not None else "")
            skip = key is None or key in mapping
            if key is None:
                self._spoil(path)
            elif skip:
                self._twice(below, event)
            if not skip and not self.muted:
                self.places[below] = self._place(event)
            self.muted += skip
            value = self._node(next(self.events), below, depth + 1)
            self.muted -= skip
            if key is not None and not skip:
                mapping[key] = value
        return mapping

    def _key(self, event: Any, path: Path, depth: int) -> str | None:
        """The key as text; None where it is none, which has been said."""
        if not isinstance(event, yaml.ScalarEvent):
            self.muted += 1
            self._node(event, path, depth + 1)
            self.muted -= 1
            braces = isinstance(event, yaml.MappingStartEvent) and event.flow_style
            hint = "quote values that start with {; write ${NAME} for a variable" if braces else ""
            if not isinstance(event, yaml.AliasEvent):
                self._say("J114", "a mapping or list cannot be a key", event, hint)
            return None
        self._marks(event)
        word: str = event.value
        if not event.style and word == "<<":
            hint = "write the keys out; a cluster profile can use extends: NAME"
            self._say("J115", "merge key '<<' is not supported", event, hint)
            return None
        if not event.style and not isinstance(resolve_scalar(word), str):
            hint = f"write '{word}' in quotes" if word else "write a word before the ':'"
            shown = f"'{word[:40]}'" if word else "nothing"
            self._say("J114", f"a key must be text, not {shown}", event, hint)
            return None
        return word

    def _twice(self, path: Path, event: Any) -> None:
        first = self.places.get(path)
        at = f" (first at {first})" if first else ""
        dotted = ".".join(map(str, path))[:80]
        hint = "remove one of the two; YAML would silently use the last"
        self._say("J103", f"duplicate key '{dotted}'{at}", event, hint, also=first)

    def _marks(self, event: Any) -> None:
        """Refuse what hangs on a node: an anchor, a tag."""
        if event.anchor is not None:
            self._say(
                "J107",
                f"anchor '&{event.anchor}': anchors and aliases are not supported",
                event,
                _ALIAS,
            )
        if event.tag is not None:
            hint = "remove it; use quotes to mark a value as text"
            shown = str(event.tag).replace("tag:yaml.org,2002:", "!!")[:60]
            self._say("J108", f"tag '{shown}': tags are not supported", event, hint)

    def _spoil(self, path: Path) -> None:
        if not self.muted:
            self.spoiled.add(path)

    def _stop(self, message: str, event: Any) -> None:
        self._say("J112", message, event, "put the data into a file in the workdir")
        raise _Stop

    def _say(
        self, code: str, message: str, event: Any, hint: str, *, also: Place | None = None
    ) -> None:
        """Add a problem; of many of one kind the first, and of those of one line the first."""
        place = self._place(event)
        same = [p.place for p in self.problems if p.code == code and p.place]
        if len(same) < SHOWN and place.line not in {p.line for p in same[-1:]}:
            others = (also,) if also else ()
            # what is quoted from the file cannot move a cursor
            shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)
            self.problems.append(Diagnostic(code, shown, place, hint, also=others))

    def _place(self, event: Any) -> Place:
        start, end = event.start_mark, event.end_mark
        one_line = end.line == start.line and end.column > start.column
        return Place(
            self.label, start.line + 1, start.column + 1, end.column + 1 if one_line else 0
        )
