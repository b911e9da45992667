"""Commands that show examples first and are loaded when they are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import cleandoc
from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.flags import EVERYWHERE, HELP, NAMES

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
Examples = Sequence[str]


class Verb(click.Command):
    """A verb: its own options, the flags of every verb, and examples before any option."""

    def __init__(self, *args: Any, examples: Examples = (), **more: Any) -> None:
        super().__init__(*args, **{"context_settings": SETTINGS, **more})
        self.examples = examples
        self.params += EVERYWHERE

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, with the flags handed to the output first."""
        call = ctx.ensure_object(Call)
        call.verb = "-".join(_path(ctx))
        call.settle()
        return super().invoke(ctx)

    def get_help_option(self, _: click.Context) -> click.Option:
        """``-h`` and ``--help``."""
        return HELP

    def get_help(self, ctx: click.Context) -> str:
        """What it does, examples, then usage and options."""
        writer = build_formatter(ctx)
        _examples(writer, self.get_short_help_str(200), self.examples)
        self.format_usage(ctx, writer)
        body = cleandoc(self.help or "").partition("\n\n")[2]
        if body:
            writer.write_paragraph()
            with writer.indentation():
                writer.write_text(body)
        own = [p for p in self.get_params(ctx) if _is_own(p)]
        rows = [row for p in own if (row := p.get_help_record(ctx)) is not None]
        with writer.section("Options"):
            writer.write_dl(rows)
        writer.write("\nEverywhere: -c --set -y --json -q -v --color --ascii --debug (jobgen -h)\n")
        return writer.getvalue().rstrip("\n")


class Lazy(click.Group):
    """A group whose verbs stand in a table: name → module and one line of help."""

    def __init__(
        self,
        *args: Any,
        verbs: Mapping[str, tuple[str, str]],
        hidden: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        words = {"context_settings": SETTINGS, "subcommand_metavar": "VERB ..."}
        super().__init__(*args, **{**words, **more})
        self.verbs = verbs
        self.aliases = hidden or {}
        self.params += EVERYWHERE

    def get_help_option(self, _: click.Context) -> click.Option:
        """``-h`` and ``--help``."""
        return HELP

    def get_help(self, ctx: click.Context) -> str:
        """What it is, and its verbs with a line each."""
        writer = build_formatter(ctx)
        writer.write(f"{self.help}\n\n")
        self.format_usage(ctx, writer)
        with writer.section("Verbs"):
            writer.write_dl([(name, line) for name, (_, line) in self.verbs.items()])
        return writer.getvalue().rstrip("\n")

    def list_commands(self, _: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(self.verbs)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        """The verb, imported now; None where there is none."""
        name = self.aliases.get(cmd_name, cmd_name)
        if name not in self.verbs:
            return None
        module, attribute = (*self.verbs[name][0].split(":"), "command")[:2]
        found = getattr(import_module(module), attribute)
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb and the rest of the words, or what was probably meant."""
        if args[0].startswith("-") or self.get_command(ctx, args[0]):
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        near = get_close_matches(args[0], [*self.verbs, *self.aliases], 1)
        meant = f" Did you mean '{self.aliases.get(near[0], near[0])}'?" if near else ""
        raise click.UsageError(f"no verb '{args[0]}'.{meant}", ctx)

    def shell_complete(
        self, ctx: click.Context, incomplete: str
    ) -> list[click.shell_completion.CompletionItem]:
        """Verbs with their help, without importing any."""
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=line)
            for name, (_, line) in self.verbs.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


def build_formatter(ctx: click.Context) -> click.HelpFormatter:
    """A formatter as wide as the screen; click's own would import shutil to ask for its width."""
    call = ctx.find_object(Call)
    width = call.output.ink.width if call else ctx.terminal_width or 80
    return click.HelpFormatter(width=min(width, 100))


def _is_own(param: click.Parameter) -> bool:
    """Whether it is an option of the verb itself; arguments stand in the usage line."""
    return isinstance(param, click.Option) and param.name not in NAMES


def verb(name: str, *examples: str, **more: Any) -> Callable[[Callable[..., Any]], Verb]:
    """Make a function a verb. It is given the Call first, then its own parameters."""

    def make(function: Callable[..., Any]) -> Verb:
        return click.command(name, cls=Verb, examples=examples, **more)(click.pass_obj(function))

    return make


def _path(ctx: click.Context) -> list[str]:
    """``["cluster", "ls"]`` for ``jobgen cluster ls``; the name in the table, not an alias."""
    names: list[str] = []
    while ctx.parent is not None:
        names.insert(0, ctx.command.name or "")
        ctx = ctx.parent
    return names


def _examples(writer: click.HelpFormatter, summary: str, examples: Examples) -> None:
    writer.write(summary + "\n\n")
    for example in examples:
        writer.write(f"  {example}\n")
    if examples:
        writer.write("\n")
