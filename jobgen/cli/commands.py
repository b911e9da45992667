"""Commands that show examples first and are loaded when they are called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import cleandoc
from typing import Any

import click

from jobgen.cli.call import Call
from jobgen.cli.flags import EVERYWHERE, HELP, NAMES

SETTING = frozenset(
    {
        "init",
        "plan",
        "submit",
        "rerun",
        "lint",
        "render",
        "doctor",
        "bench-allreduce",
        "bench-scaling",
        "ls",
    }
)
"""Verbs that read ``--set``; the others refuse it."""
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
Examples = Sequence[str]


class Verb(click.Command):
    """A verb: its own options, the flags of every verb, and examples before any option."""

    def __init__(self, *args: Any, examples: Examples = (), **more: Any) -> None:
        super().__init__(*args, **{"context_settings": SETTINGS, **more})
        self.examples = examples
        self.params += EVERYWHERE

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words. Raises Usage for an option of another tool, with what to write."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from jobgen.cli.foreign_words import refuse_option

            raise refuse_option(self.name or "", error.option_name) or error from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, with the flags handed to the output first."""
        call = ctx.ensure_object(Call)
        call.verb = "-".join(_path(ctx))
        call.settle()
        if call.flags.sets and call.verb not in SETTING:
            raise click.UsageError("--set has no effect here: no job file is read", ctx)
        return super().invoke(ctx)

    def get_help_option(self, _: click.Context) -> click.Option:
        """``-h`` and ``--help``."""
        return HELP

    def get_help(self, ctx: click.Context) -> str:
        """What it does, examples, then usage and options."""
        writer = build_formatter(ctx)
        first, _, body = cleandoc(self.help or "").partition("\n\n")
        writer.write_text(" ".join(first.split()).rstrip("."))
        write_examples(writer, self.examples)
        writer.write_paragraph()
        self.format_usage(ctx, writer)
        if body:
            writer.write_paragraph()
            with writer.indentation():
                writer.write_text(body)
        own = [p for p in self.get_params(ctx) if _is_own(p)]
        rows = [row for p in own if (row := p.get_help_record(ctx)) is not None]
        with writer.section("Options"):
            writer.write_dl(rows)
        writer.write_paragraph()
        writer.write_text(
            "Global: -c --set -y --json -q -v --color --ascii --debug (see jobgen -h)"
        )
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
        words = {"context_settings": SETTINGS, "subcommand_metavar": "COMMAND ..."}
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
        writer.write_text(self.help or "")
        writer.write_paragraph()
        self.format_usage(ctx, writer)
        with writer.section("Commands"):
            writer.write_dl([(name, line) for name, (_, line) in self.verbs.items()])
        writer.write_paragraph()
        writer.write_text(f"Help for a command, with examples: {ctx.command_path} COMMAND -h")
        return writer.getvalue().rstrip("\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words; without any, show the help."""
        return super().parse_args(ctx, args or ["--help"] * (not ctx.resilient_parsing))

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
        """The verb and the rest of the words. Raises Usage with what was probably meant."""
        if args[0].startswith("-") or self.get_command(ctx, args[0]):
            return super().resolve_command(ctx, args)
        if ctx.resilient_parsing:  # the shell completes the words behind it: there are none
            return args[0], click.Command(args[0]), args[1:]
        from difflib import get_close_matches

        from jobgen.cli.foreign_words import refuse_verb

        refusal = refuse_verb(args[0]) if ctx.parent is None else None
        if refusal is not None:
            raise refusal

        near = get_close_matches(args[0], [*self.verbs, *self.aliases], 1)
        meant = f" Did you mean '{self.aliases.get(near[0], near[0])}'?" if near else ""
        raise click.UsageError(f"no command '{args[0]}'.{meant}", ctx)

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


def format_help(ctx: click.Context, names: Sequence[str]) -> str:
    """The help of the command that these names lead to. Raises Usage for an unknown one."""
    for name in names:
        if not isinstance(ctx.command, click.Group):
            raise click.UsageError(f"'{ctx.command_path}' has no command '{name}'", ctx)
        command = ctx.command.resolve_command(ctx, [name])[1]
        if command is None:
            raise click.UsageError(f"no command '{name}'", ctx)
        ctx = click.Context(command, ctx, name)
    return ctx.command.get_help(ctx)


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


def write_examples(writer: click.HelpFormatter, examples: Examples) -> None:
    """Examples, each on a line that can be pasted; a comment that does not fit stands above it."""
    writer.write_paragraph()
    for example in examples:
        line, hash_sign, comment = example.partition("  # ")
        if hash_sign and len(example) + 2 > writer.width:
            writer.write(f"  # {comment}\n  {line.rstrip()}\n")
        else:
            writer.write(f"  {example}\n")
