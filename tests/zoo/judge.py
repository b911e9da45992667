"""How good the diagnosis is: each case's truth against what is found in its files.

python -m tests.zoo.judge [FOLDER…]    # the score of each set, and every miss
python -m tests.zoo.judge --table      # the rows of docs/howto/diagnose.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from jobgen.diagnose import LogText, find_cause
from jobgen.diagnose.folders import build_evidence, is_log
from jobgen.model.cause import FailureCause
from tests.zoo.cases import Case, read_cases

ZOO = Path(__file__).parent
LEAST = {"cause": 0.95, "rank": 0.95, "retry": 0.97, "healthy": 1.0}
"""The shares that a diagnosis must reach."""
SLURM = "scheduler.json"
"""What Slurm reported of the job."""
SETS = ("recorded", "rewritten/open", "rewritten/held_back")
SHOWN = {
    "made live on a Slurm test cluster (torchrun, srun, DeepSpeed, accelerate; CPU ranks)": (
        "recorded",
    ),
    "composed for this repository after public threads about GPUs, NCCL and their networks "
    "(no real logs)": ("rewritten/open", "rewritten/held_back"),
}
"""What the documentation calls them, and which sets they are."""


class Judged(NamedTuple):
    """One case, and what of its diagnosis is right."""

    case: Case
    found: FailureCause | None
    cause: bool
    rank: bool
    retry: bool

    def describe(self) -> str:
        """The misses of a case in one line."""
        found, truth = self.found, self.case.truth
        wanted = (truth["cause"], truth["rank"], truth["node"], truth["retry"])
        got = found and (found.kind, found.bad_rank, found.node, found.retry)
        return f"{self.case.name}: wanted {wanted}, found {got}"


def judge(case: Case) -> Judged:
    """Whether cause, first bad rank and the chance of a retry are right.

    Nothing may be found in a healthy job, whether or not it is known how Slurm ended it.
    """
    texts = [
        LogText(name, path.read_text("utf-8", "backslashreplace"))
        for name, path in zip(case.truth["files"], case.files, strict=True)
        if is_log(name)
    ]
    found = find_cause(build_evidence(texts))
    healthy = case.cause == "none"
    if healthy and found is None:
        found = find_cause(build_evidence(text for text in texts if text.path != SLURM))
    kind = found.kind if found else "none"
    retry = healthy or (found is not None and found.retry == case.truth["retry"])
    return Judged(case, found, kind in case.accepted, _is_rank_right(case, found), retry)


def _is_rank_right(case: Case, found: FailureCause | None) -> bool:
    """The rank to blame; of a node to blame any of its ranks; none where all ranks are alike."""
    rank, node = case.truth["rank"], case.truth["node"]
    if case.truth.get("all_ranks"):
        return found is not None and found.bad_rank is None
    if rank is None and node and found is not None and found.node == node:
        return True
    return rank == (found.bad_rank if found else None)


def judge_all(folder: Path) -> list[Judged]:
    """Every case below a folder."""
    return [judge(case) for case in read_cases(folder)]


def compute_shares(rows: Iterable[Judged]) -> dict[str, float]:
    """The shares that are right: of causes, first bad ranks, retries; of healthy jobs apart."""
    rows = list(rows)
    failed = [row for row in rows if row.case.cause != "none"]
    well = [row for row in rows if row.case.cause == "none"]
    shares = {
        "cause": sum(row.cause for row in failed) / max(len(failed), 1),
        "rank": sum(row.rank for row in failed) / max(len(failed), 1),
        "retry": sum(row.retry for row in failed) / max(len(failed), 1),
    }
    return shares if not well else {**shares, "healthy": sum(r.cause for r in well) / len(well)}


def list_table() -> list[str]:
    """The rows of the documentation's table that these sets give."""
    return [
        _format_row(label, [row for name in names for row in judge_all(ZOO / name)])
        for label, names in SHOWN.items()
    ]


def _format_row(label: str, rows: list[Judged]) -> str:
    shares = compute_shares(rows)
    well = [row for row in rows if row.case.cause == "none"]
    shown = [f"{100 * shares[key]:.3g} %" for key in ("cause", "rank", "retry")]
    quiet = f"{sum(row.cause for row in well)} of {len(well)}"
    return f"| {' | '.join([label, str(len(rows) - len(well)), *shown, quiet])} |"


def main(folders: list[str]) -> None:
    """Print the score of each set, and what was missed."""
    if folders == ["--table"]:
        print("\n".join(list_table()))
        return
    for folder in map(Path, folders or [str(ZOO / name) for name in SETS]):
        rows = judge_all(folder)
        shares = " ".join(f"{k} {v:.1%}" for k, v in compute_shares(rows).items())
        print(f"{folder.name}: {len(rows)} cases: {shares}")
        for row in rows:
            if not (row.cause and row.rank and row.retry):
                print(f"  {row.describe()}")


if __name__ == "__main__":
    main(sys.argv[1:])
