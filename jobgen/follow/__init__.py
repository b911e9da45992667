"""Many log files → one stream of lines: ranks, filters, collapse; and the terminal filter."""

from jobgen.follow.collapse import Lines
from jobgen.follow.follower import Follower
from jobgen.follow.source import LogSource, parse_source
from jobgen.follow.view import View, parse_ranks

__all__ = ["Follower", "Lines", "LogSource", "View", "parse_ranks", "parse_source"]
