"""Command lines as Slurm's programs read them: tables of options, one reader.

In a table ``name`` is a flag, ``name=`` takes a value, ``name?`` may take one (only after ``=``),
and ``:x`` is the short form. The names of sbatch are those of its manual page, 22.05 to 26.05; most
have no meaning on one machine and are taken and left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .errors import usage

VERSION = "slurm-wlm 22.05.8 (jobgen local)"

SBATCH = """
account=:A acctg-freq= array=:a autocomplete= batch= bb= bbf= begin=:b chdir=:D cluster=
cluster-constraint= clusters=:M comment= consolidate-segments constraint=:C container= container-id=
container-type= context= contiguous core-spec=:S cores-per-socket= cpu-freq= cpus-per-gpu=
cpus-per-task=:c deadline= delay-boot= dependency=:d distribution=:m error=:e exclude=:x exclusive?
export= export-file= external extra= extra-node-info=:B get-user-env? gid= gpu-bind= gpu-freq=
gpus=:G gpus-per-node= gpus-per-socket= gpus-per-task= gres= gres-flags= help:h hint= hold:H
ignore-pbs input=:i job-name=:J kill-on-invalid-dep= licenses=:L mail-type= mail-user= mcs-label=
mem= mem-bind= mem-per-cpu= mem-per-gpu= mem-update= mincpus= network= nice? no-kill?:k no-requeue
nodefile=:F nodelist=:w nodes=:N ntasks=:n ntasks-per-core= ntasks-per-gpu= ntasks-per-node=
ntasks-per-socket= ntasks-per-tres= oom-kill-step? open-mode= output=:o overcommit:O oversubscribe:s
parsable partition=:p prefer= priority= profile= propagate? qos=:q quiet:Q reboot requeue?
reservation= resources= resv-ports? segment= signal= sockets-per-node= spread-job spread-segments
stepmgr switches= test-only thread-spec= threads-per-core= time=:t time-min= tmp= tres-bind=
tres-per-task= uid= usage use-min-nodes verbose:v version:V wait:W wait-all-nodes= wckey= wrap=
"""
SRUN = """
nodes=:N ntasks=:n ntasks-per-node= cpus-per-task=:c cpu-bind= gpu-bind= tres-bind= mem-bind= mpi=
kill-on-bad-exit?:K wait=:W no-kill?:k overlap exact exclusive? export= label:l unbuffered:u
nodelist=:w exclude=:x relative=:r output=:o error=:e input=:i open-mode= chdir=:D job-name=:J
quiet:Q verbose:v mem= mem-per-cpu= gres= gpus=:G gpus-per-node= gpus-per-task= distribution=:m
hint= threads-per-core= time=:t propagate? network= resv-ports? version:V
"""
SQUEUE = """
noheader:h jobs=:j states=:t format=:o Format=:O me user=:u name=:n partition=:p array:r all:a
sort=:S local long:l nodelist=:w account=:A version:V
"""
SCANCEL = (
    "signal=:s batch:b full:f quiet:Q verbose:v name=:n user=:u me state=:t ctld interactive:i"
)
SCONTROL = "oneliner:o all:a details:d quiet:Q verbose:v local:l hide version:V"

SBATCH_ENV = {
    # what is not the option's name in capitals after SBATCH_
    "array": "SBATCH_ARRAY_INX",
    "mem": "SBATCH_MEM_PER_NODE",
    "segment": "SBATCH_SEGMENT_SIZE",
    "switches": "SBATCH_REQ_SWITCH",
    "time": "SBATCH_TIMELIMIT",
    "verbose": "SBATCH_DEBUG",
}
_NO_ENV = """
begin chdir comment dependency hold nodes ntasks ntasks-per-node cpus-per-task
parsable quiet test-only wrap exclude nodelist mail-type mail-user
"""
NO_ENV = frozenset(_NO_ENV.split())


class Option(NamedTuple):
    """One option: its long name and whether it takes a value."""

    name: str
    kind: str  # "" a flag, "=" needs a value, "?" may have one


def table(text: str) -> Mapping[str, Option]:
    """``--name`` and ``-x`` of a table → the option."""
    found: dict[str, Option] = {}
    for word in text.split():
        long, _, short = word.partition(":")
        name = long.rstrip("=?")
        option = Option(name, long[len(name) :])
        found[f"--{name}"] = option
        if short:
            found[f"-{short}"] = option
    return found


def parse(program: str, options: str, words: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Long name → value ('' for a flag; the last one wins), and what follows the options."""
    known, values, rest = table(options), dict[str, str](), list(words)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            _long(program, known, word, rest, values)
        else:
            _shorts(program, known, word[1:], rest, values)
    return values, rest


def _long(
    program: str,
    known: Mapping[str, Option],
    word: str,
    rest: list[str],
    values: dict[str, str],
) -> None:
    name, equals, value = word.partition("=")
    option = known.get(name)
    if option is None:
        raise usage(program, f"unrecognized option '{word}'")
    if equals and not option.kind:
        raise usage(program, f"option '{name}' doesn't allow an argument")
    if option.kind == "=" and not equals:
        if not rest:
            raise usage(program, f"option '{name}' requires an argument")
        value = rest.pop(0)
    values.pop(option.name, None)
    values[option.name] = value


def _shorts(
    program: str,
    known: Mapping[str, Option],
    letters: str,
    rest: list[str],
    values: dict[str, str],
) -> None:
    while letters:
        letter, letters = letters[0], letters[1:]
        option = known.get(f"-{letter}")
        if option is None:
            raise usage(program, f"invalid option -- '{letter}'")
        value = ""
        if option.kind:
            value, letters = letters, ""
        if option.kind == "=" and not value:
            if not rest:
                raise usage(program, f"option requires an argument -- '{letter}'")
            value = rest.pop(0)
        values.pop(option.name, None)
        values[option.name] = value
