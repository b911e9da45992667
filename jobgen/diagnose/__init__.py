"""The logs and exit codes of a failed job → its first failure, and the lines that show it. Pure."""

from jobgen.diagnose.evidence import Evidence, RankEnd, list_ends
from jobgen.diagnose.exit_codes import describe_exit, describe_job_exit, name_signal
from jobgen.diagnose.first_failure import find_cause

__all__ = [
    "Evidence",
    "RankEnd",
    "describe_exit",
    "describe_job_exit",
    "find_cause",
    "list_ends",
    "name_signal",
]
