"""The way in: the table of verbs, and the one place that catches everything."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import Lazy, build_formatter
from jobgen.cli.output import Output
from jobgen.errors import Diagnostic, Exit, JobgenError, Usage

_AT = "jobgen.cli.verbs."
VERBS = {
    "init": (_AT + "init", "Write a job.yaml for the program in this folder."),
    "plan": (_AT + "plan", "What would happen, every value with its why."),
    "submit": (_AT + "submit", "Upload and submit a job, once."),
    "logs": (_AT + "logs", "What every rank prints, as one stream."),
    "ls": (_AT + "ls", "Jobs: waiting, running, done."),
    "lint": (_AT + "lint", "Every problem of job and cluster files, offline."),
    "render": (_AT + "render", "The exact files, byte for byte what is submitted."),
    "show": (_AT + "show", "One job: its state, its times, its files."),
    "wait": (_AT + "wait", "Wait for the end; the exit code is the job's result."),
    "cancel": (_AT + "cancel", "Cancel jobs, for good."),
    "recover": (_AT + "recover", "Take up runs that this machine does not know."),
    "cluster": (_AT + "cluster", "The cluster profiles: ls, show, add, check, trust."),
    "doctor": (_AT + "doctor", "What is well and what is not: this machine, a cluster."),
    "bench": (_AT + "bench", "Measure: the links of a cluster, how a program scales."),
    "schema": (_AT + "schema", "JSON Schema of job and cluster files, for editors."),
    "explain": (_AT + "explain", "What a code such as J131 means, and what to do."),
    "completion": (_AT + "completion", "Completion for bash, zsh or fish."),
}
DAILY = 5
"""So many verbs of the table are the daily ones."""
EXAMPLES = (
    ("jobgen plan job.yaml -c a100x16", "what would happen, and why"),
    ("jobgen submit job.yaml -c local --follow", "try it on this machine"),
    ("jobgen logs @last -f", "every rank, one stream"),
)


class Root(Lazy):
    """``jobgen`` itself."""

    def get_help(self, ctx: click.Context) -> str:
        """One screen: examples, the verbs, the flags of every verb."""
        writer = build_formatter(ctx)
        writer.write("From one job.yaml to a followed multi-node GPU job on a Slurm cluster.\n\n")
        for command, why in EXAMPLES:
            writer.write(f"  {command:42}  {why}\n")
        rows = [(name, line) for name, (_, line) in VERBS.items()]
        for title, some in (("Every day", rows[:DAILY]), ("And", rows[DAILY:])):
            with writer.section(title):
                writer.write_dl(some, col_max=12)
        records = [p.get_help_record(ctx) for p in self.get_params(ctx)]
        with writer.section("Everywhere"):
            writer.write_dl([r for r in records if r])
        writer.write("\nHelp of a verb, with examples: jobgen VERB -h\n")
        return writer.getvalue().rstrip("\n")


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Everything a bug report needs to know of the installation."""
    if not wanted or ctx.resilient_parsing:
        return
    from jobgen.cli.bug_report import describe_version

    ctx.ensure_object(Call).output.write_text(describe_version())
    ctx.exit()


ROOT = Root(
    "jobgen",
    verbs=VERBS,
    hidden={"ps": "ls"},
    params=[
        click.Option(
            ["--version"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_version,
            help="Version, Python, platform, place.",
        )
    ],
)


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run the program and leave with its exit code."""
    code = run(sys.argv[1:] if words is None else words)
    # All memory goes with the process: looking for garbage in it first took a tenth of every verb.
    gc.freeze()
    sys.exit(code)


def run(words: Sequence[str]) -> int:
    """Run one call; gives the exit code. Everything that goes wrong ends here."""
    call = Call(Output())
    try:
        code = _code(_invoke(list(words) or ["--help"], call))
        sys.stdout.flush()
    except BrokenPipeError:
        # the reader left, as `| head` does: nobody is there to be told
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (KeyboardInterrupt, click.Abort):
        sent = "; jobgen ls shows what was sent, and nothing is sent twice"
        call.output.say(f"Interrupted{sent if call.verb == 'submit' else ''}.")
        return Exit.INTERRUPTED
    except click.ClickException as error:
        return _failed(call, _usage(error), words)
    except JobgenError as error:
        return _failed(call, error, words)
    except Exception as error:  # noqa: BLE001  the one place: a bug ends in a report, not a traceback
        from jobgen.cli.bug_report import report_bug

        return report_bug(call, error, words)
    return code


def _invoke(words: list[str], call: Call) -> Any:
    if "_JOBGEN_COMPLETE" in os.environ:
        return ROOT.main(words, "jobgen", standalone_mode=False, obj=call)
    # as click's own main does, which would take a reader that left for an error of its own
    try:
        with ROOT.make_context("jobgen", words, obj=call) as context:
            return ROOT.invoke(context)
    except click.exceptions.Exit as leave:
        return leave.exit_code


def _code(result: Any) -> int:
    return int(result) if isinstance(result, int) else Exit.DONE


def _failed(call: Call, error: JobgenError, words: Sequence[str]) -> int:
    """Say what is wrong: in JSON where that was asked for, else on standard error."""
    call.settle()
    if call.flags.json or "--json" in words:
        call.write_envelope(None, error=error)
        return error.exit
    from jobgen.cli.diagnostics import screen

    text = screen(error.problems, call.texts, call.output.talk)
    call.output.say(text.rstrip("\n"), level=2)
    return error.exit


def _usage(error: click.ClickException) -> Usage:
    """What click says of the words, in our form, with where to read on."""
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    path = ctx.command_path if ctx else "jobgen"
    usage = ctx.command.collect_usage_pieces(ctx) if ctx else []
    shown = " ".join([path, *usage])
    return Usage(Diagnostic("J000", message, hint=f"usage: {shown}; more: {path} -h"))
