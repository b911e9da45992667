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

_CONTROLLER = re.compile(
    r"(?:Batch job submission failed|allocation failure): *(?:"
    + "|".join(re.escape(words) for words in CONTROLLER)
    + ")",
    re.IGNORECASE,
)

# Said by sbatch itself, or by the shell, before anything was sent.
_BEFORE = re.compile(
    r"sbatch: (?:"
    r"unrecognized option|invalid option|option '[^']*' (?:requires|doesn't allow|is ambiguous)"
    r"|fatal: .*: line \d+: Unmatched"
    r"|error: (?:Unable to open file|Batch script (?:is empty|contains)|This does not look like"
    r"|Invalid directive found|Invalid (?:--|numeric value)|Invalid [a-z-]* specification"
    r"|\"[^\"]*\" is not a valid|Could not open user environment file|Unable to resolve"
    r"|Script arguments not permitted|Invalid generic resource"
    r"|'[^']*' can't be reached now|[^\n]*: not a folder that only you may change)"
    r"|(?:fatal|error): Could not establish a configuration source"
    r"|fatal: Unable to process configuration file)"
)
_NO_PROGRAM = re.compile(r"(?:not found|No such file or directory|Permission denied)\s*$", re.M)

# A plug-in of the site says no with words of its own and then this, Slurm's error -1. The
# same number could come out of a broken answer, so one line of the plug-in's own must be there
# and none that speaks of the wire.
_PLUGIN = re.compile(r"Batch job submission failed: Unspecified error")
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
    if _CONTROLLER.search(error) or _BEFORE.search(error):
        return True
    return bool(_PLUGIN.search(error)) and _said_why(error)


def _said_why(error: str) -> bool:
    lines = [line for line in split_lines(error) if line.strip() and not _PLUGIN.search(line)]
    return bool(lines) and not _WIRE.search("\n".join(lines))
