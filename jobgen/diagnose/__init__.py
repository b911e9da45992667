"""The logs and exit codes of a failed job → its first failure, and the lines that show it. Pure."""

from jobgen.diagnose.evidence import Evidence, RankEnd, read_record
from jobgen.diagnose.exit_codes import describe_exit, describe_job_exit, name_signal
from jobgen.diagnose.first_failure import find_cause
from jobgen.diagnose.log_lines import LogText

__all__ = [
    "Evidence",
    "LogText",
    "RankEnd",
    "describe_exit",
    "describe_job_exit",
    "find_cause",
    "name_signal",
    "read_record",
]
