"""Write docs/reference from what the program knows of itself: ``python docs/generate.py``.

A test fails when a page is not as this script would write it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from jobgen.cli.commands import Lazy
from jobgen.cli.main import ROOT, VERBS
from jobgen.data import codes, sbatch_options
from jobgen.errors import Exit
from jobgen.load import schema

HERE = Path(__file__).parent / "reference"
MADE = "<!-- made by docs/generate.py; change the program, not this page -->\n"

EXITS = {
    Exit.DONE: "done; for `wait` and `submit --wait`: the job COMPLETED",
    Exit.FAILED: "the thing asked about failed: the job did not complete, `lint` found errors, "
    "`render --check` found differences",
    Exit.USAGE: "wrong usage, or a question that has no terminal to be asked on",
    Exit.INVALID: "a job or cluster file is invalid; nothing was contacted",
    Exit.UNREACHABLE: "the cluster cannot be reached or does not let you in",
    Exit.REFUSED: "the scheduler refused; its words are shown unchanged",
    Exit.UNFIT: "the plan cannot fit",
    Exit.MISSING: "no such job, cluster, file or code",
    Exit.DIFFERENT: "differences were found, with `plan --exit-code`",
    Exit.BUG: "a bug in jobgen; the path of a report is printed",
    Exit.TIMED_OUT: "`wait --timeout` ran out; the job goes on",
    Exit.INTERRUPTED: "Ctrl-C; the job is untouched",
}

VARIABLES = {
    "JOBGEN_CLUSTER": "the cluster, where neither `-c` nor the job file names one",
    "JOBGEN_CONFIG_HOME": "your own profiles and templates; else `$XDG_CONFIG_HOME/jobgen`, "
    "else `~/.config/jobgen`",
    "JOBGEN_STATE_HOME": "the notebook and bug reports; else `$XDG_STATE_HOME/jobgen`, "
    "else `~/.local/state/jobgen`",
    "NO_COLOR": "no colours, whatever its value",
    "FORCE_COLOR": "colours in a pipe too; a bar is never drawn there",
    "COLUMNS": "the width of screens",
}


def main(words: list[str]) -> int:
    """Write the pages; with ``--check`` say which are old, and change nothing."""
    old = []
    for name, text in pages().items():
        path = HERE / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        old.append(name)
        if "--check" not in words:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    print("\n".join(old) or "all pages are as they should be")
    return 1 if old and "--check" in words else 0


def pages() -> dict[str, str]:
    """Name → text of every page."""
    return {
        "README.md": _index(),
        "commands.md": _commands(),
        "job.md": _file("job", "job.yaml"),
        "cluster.md": _file("cluster", "cluster.yaml"),
        "slurm-options.md": _options(),
        "codes.md": _codes(),
    }


def _index() -> str:
    return (
        f"{MADE}\n# Reference\n\n"
        "| page | what it holds |\n|---|---|\n"
        "| [commands](commands.md) | every verb and flag, exit codes, JSON, environment |\n"
        "| [job.yaml](job.md) | every key of a job file |\n"
        "| [cluster.yaml](cluster.md) | every key of a cluster profile |\n"
        "| [options of sbatch](slurm-options.md) | what may stand under `slurm:` |\n"
        "| [codes](codes.md) | what J131 and the others mean |\n"
    )


# commands


def _commands() -> str:
    parts = [MADE, "\n# Commands\n\n", _block(_help(ROOT, "jobgen"))]
    for name in VERBS:
        parts += [f"\n## jobgen {name}\n\n", *_verb(name)]
    parts += ["\n## Exit codes\n\n| code | meaning |\n|---|---|\n"]
    parts += [f"| {int(code)} | {EXITS[code]} |\n" for code in Exit]
    parts += [_JSON, "\n## Environment\n\n| variable | meaning |\n|---|---|\n"]
    parts += [f"| `{name}` | {meaning} |\n" for name, meaning in VARIABLES.items()]
    return "".join(parts)


_JSON = """
## JSON

With `--json` every verb prints one document, the same on a terminal or not, without colours:

```json
{"schema": "jobgen/VERB/1", "ok": true, "data": {}, "warnings": [], "error": null}
```

On failure `ok` is false and `error` holds `code`, `message`, `hint`, `exit` and `problems`, each
with `code severity message file line col end_col hint also`. Within version 1 keys are only added.
`logs --json` and `submit --follow --json` print JSON Lines, each with `event`: `line` (with `node`,
`rank`, `stream`, `line`, and `n`, the number of ranks that said it), `state`, `lost`, `back`,
`truncated`, `restart`, `end`, `detached`.
"""


def _verb(name: str) -> Iterator[str]:
    command = ROOT.get_command(click.Context(ROOT), name)
    if isinstance(command, Lazy):
        found = {sub: command.get_command(click.Context(command), sub) for sub in command.verbs}
        yield from (_block(_help(c, f"jobgen {name} {sub}")) for sub, c in found.items() if c)
    elif command is not None:
        yield _block(_help(command, f"jobgen {name}"))


def _help(command: click.Command, path: str) -> str:
    ctx = click.Context(command, info_name=path, terminal_width=80, max_content_width=80)
    return command.get_help(ctx)


def _block(text: str) -> str:
    return f"```\n{text}\n```\n"


# the two files


def _file(kind: str, title: str) -> str:
    found: Mapping[str, Any] = schema("cluster" if kind == "cluster" else "job")
    named = _rows(found, found)
    parts = [MADE, f"\n# {title}\n\n{found['description']}\n\n", _HEAD, *named]
    for name, form in found.get("$defs", {}).items():
        keys = [k for k, v in found["properties"].items() if f"/{name}'" in str(v)]
        title = f"{keys[0]}" if keys else name.lower()
        if form.get("properties"):
            parts += [f"\n## {title}\n\n{form.get('description', '')}\n\n", _HEAD]
            parts += _rows(form, found)
    return "".join(parts)


_HEAD = "| key | value | meaning |\n|---|---|---|\n"


def _rows(form: Mapping[str, Any], top: Mapping[str, Any]) -> list[str]:
    needed = form.get("required", ())
    return [
        f"| `{key}`{' **needed**' if key in needed else ''} | {_cell(_kind(key, value, top))} "
        f"| {_cell(_meaning(value))} |\n"
        for key, value in form["properties"].items()
    ]


def _meaning(value: Mapping[str, Any]) -> str:
    default = value.get("default")
    stated = f" Default: `{default}`." if default not in (None, "", [], {}) else ""
    return str(value.get("description", "")) + stated


def _kind(key: str, value: Mapping[str, Any], top: Mapping[str, Any]) -> str:
    """What may stand there, in words."""
    if key == "slurm":
        return "[options of sbatch](slurm-options.md)"
    if "anyOf" in value:
        kinds = [_kind("", each, top) for each in value["anyOf"] if each != {"type": "null"}]
        return ", or ".join(dict.fromkeys(kinds))
    if "$ref" in value:
        return "mapping, below"
    words = value.get("enum", value.get("examples"))
    if words is None and "const" in value:
        words = [value["const"]]
    return " ".join(f"`{word}`" for word in words) if words else _plain(value)


_TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true` or `false`",
    "array": "list",
    "object": "mapping",
}


def _plain(value: Mapping[str, Any]) -> str:
    kinds = value.get("type", "string")
    if isinstance(kinds, list):
        # a number where text may stand is that text, as it is written
        kinds = "string" if "string" in kinds and "array" not in kinds else kinds[-1]
    if kinds == "integer" and "minimum" in value:
        most = f" to {value['maximum']}" if "maximum" in value else " or more"
        return f"whole number, {value['minimum']}{most}"
    if kinds == "string" and "pattern" in value:
        return f"text like `{value['pattern']}`"
    return _TYPES.get(kinds, str(kinds))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


# tables of data


_ABOUT_OPTIONS = """
# Options of sbatch

Under `slurm:` in both files, by their long names without dashes; `gpus_per_task` and
`gpus-per-task` are the same. Options of site plug-ins go under `slurm.extra`, as they are.

| option | value | since | what happens |
|---|---|---|---|
"""


def _options() -> str:
    parts = [MADE, _ABOUT_OPTIONS]
    for option in sbatch_options().values():
        rules = {
            "allow": "refused: gone" if option.removed and not option.old else "as written",
            "join": option.why or "joined with jobgen's own",
            "refuse": f"refused: use `{option.key}`" if option.key else f"refused: {option.why}",
        }
        value = {"no": "a flag", "optional": f"[{option.form}]"}.get(option.takes, option.form)
        gone = f", gone after {option.removed}" if option.removed else ""
        cells = (f"`{option.name}`", value, option.since + gone, rules[option.rule])
        parts.append("| " + " | ".join(_cell(c) for c in cells) + " |\n")
    return "".join(parts)


def _codes() -> str:
    parts = [MADE, "\n# Codes\n\n`jobgen explain CODE` shows the same, offline.\n"]
    for code in codes().values():
        parts.append(f"\n## {code.code}: {code.title}\n\n{code.why.strip()}\n")
        for label, text in (("Wrong", code.wrong), ("Right", code.right)):
            if text:
                parts.append(f"\n{label}:\n\n```\n{text}\n```\n")
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
