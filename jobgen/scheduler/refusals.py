"""sbatch's definite refusals: an allow-list. What is not here may have been accepted.

Sources: Slurm's ``src/common/slurm_errno.c`` and ``src/sbatch/opt.c``, and sbatch 22.05.8 tried.
"""

from __future__ import annotations

import re

from jobgen.shell import split_lines

# Said by the controller: it looked at the request and will not take it.
CONTROLLER = (
    "Access/permission denied",
    "Invalid account or account/partition combination specified",
    "Invalid burst buffer",
    "Invalid cluster name",
    "Invalid feature specification",
    "Invalid generic resource (gres) specification",
    "Invalid group id",
    "Invalid job array specification",
    "Invalid license specification",
    "Invalid node name specified",
    "Invalid partition name specified",
    "Invalid qos specification",
    "Invalid Trackable RESource (TRES) specification",
    "Invalid user id",
    "Invalid wckey specification",
    "Job dependency problem",
    "Job violates accounting",
    "Memory required by task is not available",
    "Memory specification can not be satisfied",
    "More processors requested than permitted",
    "Node count specification invalid",
    "Pathname of a file, directory or other parameter too long",
    "Requested GRES option unsupported by configured SelectType plugin",
    "Requested node configuration is not available",
    "Requested nodes are busy",
    "Requested partition configuration not available now",
    "Requested reservation is invalid",
    "Requested time limit is invalid",
    "Required partition not available (inactive or drain)",
    "Task count specification invalid",
    "User's group not permitted to use this partition",
    "Unable to satisfy cpu bind request",
)


def _escape(words: str) -> str:
    """The words as an extended regular expression, of Python's and of grep's."""
    return re.sub(r"[()]", r"\\\g<0>", words)


# Patterns of ``re`` and of ``grep -E -i`` alike: the scripts in run directories use them too.
PATTERNS = (
    "(Batch job submission failed|allocation failure): *("
    + "|".join(map(_escape, CONTROLLER))
    + ")",
    # Said by sbatch itself, or by the shell, before anything was sent.
    "sbatch: (unrecognized option|invalid option)",
    "sbatch: option '[^']*' (requires|doesn't allow|is ambiguous)",
    "sbatch: fatal: .*: line [0-9]+: Unmatched",
    "sbatch: error: (Unable to open file|Batch script (is empty|contains)|This does not look like)",
    "sbatch: error: (Invalid directive found|Invalid (--|numeric value))",
    "sbatch: error: Invalid [a-z-]* specification",
    'sbatch: error: ("[^"]*" is not a valid|Could not open user environment file)',
    "sbatch: error: (Unable to resolve|Script arguments not permitted|Invalid generic resource)",
    "sbatch: error: ('[^']*' can't be reached now|.*: not a folder that only you may change)",
    "sbatch: (fatal|error): Could not establish a configuration source",
    "sbatch: fatal: Unable to process configuration file",
)
_DEFINITE = re.compile("|".join(PATTERNS), re.IGNORECASE)
_NO_PROGRAM = re.compile(r"(?:not found|No such file or directory|Permission denied)\s*$", re.M)

# A plug-in of the site says no with words of its own and then this, Slurm's error -1. The
# same number could come out of a broken answer, so one line of the plug-in's own must be there
# and none that speaks of the wire. payload/refusals.sh has the same words.
_PLUGIN = "Batch job submission failed: Unspecified error"
_WIRE = re.compile(
    r"socket|connect|transport|timed out|communication|message|zero bytes|reset by peer|contact"
    r"|authentication|credential",
    re.IGNORECASE,
)


def is_definite(code: int, error: str) -> bool:
    """Whether sbatch, which ended with this code and words, was certainly not obeyed."""
    if code == 0 or (code >= 128 and code != 255):
        return False
    if code in (126, 127):
        return bool(_NO_PROGRAM.search(error))
    return bool(_DEFINITE.search(error)) or (_PLUGIN in error and _said_why(error))


def _said_why(error: str) -> bool:
    lines = [line for line in split_lines(error) if line.strip() and _PLUGIN not in line]
    return bool(lines) and not _WIRE.search("\n".join(lines))
