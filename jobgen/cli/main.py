"""The way in: the table of verbs, and the one place that catches everything."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from jobgen.cli.call import Call
from jobgen.cli.commands import Lazy, build_formatter, write_examples
from jobgen.cli.output import Output
from jobgen.errors import Diagnostic, Exit, JobgenError, Usage

_AT = "jobgen.cli.verbs."
VERBS = {
    "init": (_AT + "init", "Write a job.yaml for the program in this folder"),
    "plan": (_AT + "plan", "Preview a job and explain each setting"),
    "submit": (_AT + "submit", "Upload and submit a job, exactly once"),
    "logs": (_AT + "logs", "Show the output of all ranks as one stream"),
    "ls": (_AT + "ls", "List jobs"),
    "lint": (_AT + "lint", "Check job, cluster and sbatch files, offline"),
    "render": (_AT + "render", "Print or write the scripts of a job"),
    "show": (_AT + "show", "Show one job: state, times, files"),
    "diagnose": (_AT + "diagnose", "Find why a job failed, from a run or any logs"),
    "wait": (_AT + "wait", "Wait for jobs to end; exit with their result"),
    "cancel": (_AT + "cancel", "Cancel jobs"),
    "rerun": (_AT + "rerun", "Submit a run's job again, or what failed of it"),
    "reproduce": (_AT + "reproduce", "Submit a run again exactly as it was"),
    "pull": (_AT + "pull", "Copy files of a run to this machine"),
    "sh": (_AT + "sh", "Open a shell on a node of a running job"),
    "port": (_AT + "port", "Forward a port of a running job's node to this machine"),
    "prune": (_AT + "prune", "Remove files of ended runs from a cluster"),
    "recover": (_AT + "recover", "Import runs that are missing from the run database"),
    "cluster": (_AT + "cluster", "Manage cluster profiles: ls, show, add, check, trust"),
    "doctor": (_AT + "doctor", "Check this machine, or a cluster, for problems"),
    "calibrate": (_AT + "calibrate", "Correct the estimates by your finished runs"),
    "bench": (_AT + "bench", "Measure network bandwidth and scaling"),
    "config": (_AT + "config", "Show your settings and where they come from"),
    "schema": (_AT + "schema", "Print the JSON Schema of job or cluster files"),
    "explain": (_AT + "explain", "Explain a code, a key, a word of the plan or a variable"),
    "completion": (_AT + "completion", "Print the completion script for your shell"),
    "help": (_AT + "help", "Show help for a command, with examples"),
}
DAILY = 5
"""Verbs listed first in --help."""
EXAMPLES = (
    "jobgen init                       # write a job.yaml for this folder",
    "jobgen plan                       # preview it and explain each setting",
    "jobgen submit -c local --follow   # try it on this machine",
    "jobgen logs @last -f              # follow all ranks",
)


class Root(Lazy):
    """``jobgen`` itself."""

    def get_help(self, ctx: click.Context) -> str:
        """One screen: examples, the verbs, the flags of every verb."""
        writer = build_formatter(ctx)
        writer.write_text("Run multi-node GPU training on Slurm clusters from one job.yaml")
        write_examples(writer, EXAMPLES)
        rows = [(name, line) for name, (_, line) in VERBS.items()]
        for title, some in (("Daily commands", rows[:DAILY]), ("More commands", rows[DAILY:])):
            with writer.section(title):
                writer.write_dl(some, col_max=12)
        records = [p.get_help_record(ctx) for p in self.get_params(ctx)]
        with writer.section("Global options"):
            writer.write_dl([r for r in records if r])
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
            help="Show version, Python, platform and path",
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
        sent = "; nothing is sent twice; see what was sent: jobgen ls"
        call.output.say(f"Interrupted{sent if call.verb == 'submit' else ''}")
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
    shown = " ".join([path, *(ctx.command.collect_usage_pieces(ctx) if ctx else [])])
    lacking = error.param if isinstance(error, click.MissingParameter) else None
    lacks_job = lacking is not None and (lacking.metavar or "").startswith("ID")
    usage = f"newest job: {path} @last" if lacks_job else f"usage: {shown}"
    return Usage(Diagnostic("J000", message, hint=f"{usage}; more: {path} -h"))
