"""``bench allreduce``: its job made ready, its result read back, judged, and kept."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobgen import payload
from jobgen.app import clusters
from jobgen.app.prepare import GeneratedJob, PreparedJob, prepare
from jobgen.app.world import World
from jobgen.bench import bench_job, formulas, nccl, node_pairs, results
from jobgen.bench.verdict import BenchCase, BenchVerdict, find_top, judge
from jobgen.errors import Missing, Usage
from jobgen.fabric.limits import Limit, find_limit
from jobgen.model.cluster import ClusterProfile
from jobgen.model.record import RunRecord
from jobgen.named_tuple import NamedTuple

KEY = "bench"
"""Where a run's record keeps what was asked for, and what was measured."""
LABEL = "bench allreduce"


class AllreduceRequest(NamedTuple):
    """What the command line asks for."""

    nodes: int | None = None
    ops: tuple[str, ...] = ("all_reduce",)
    sizes: tuple[int, ...] = ()
    pairs: bool = False
    tests: bool = False
    like: Path | None = None
    """A job whose setup, environment, container and options of sbatch are used."""
    seconds: float = 2.0
    """For each size, about."""


class Judged(NamedTuple):
    """One finished bench."""

    record: RunRecord
    bench: results.Bench
    limit: Limit | None
    verdicts: tuple[tuple[str, BenchVerdict], ...]
    """Collective → what it means."""
    fit: formulas.Fit | None
    """Of the all-reduce."""
    nodes: tuple[node_pairs.NodePairs, ...]
    tests: nccl.Table | None

    @property
    def top(self) -> results.Point | None:
        """The best all-reduce of large messages."""
        return find_top(self.bench.select("all_reduce"))


@contextmanager
def prepare_job(
    world: World, wanted: AllreduceRequest, cluster: str | None, sets: Sequence[str] = ()
) -> Iterator[PreparedJob]:
    """The job that measures, while its files exist. Raises as ``prepare`` does."""
    like = _like(world, wanted.like)
    beside = wanted.like.resolve().parent if wanted.like else None
    named = cluster or _text(like.get("cluster"))
    profile = clusters.find(world, named, world.open_catalog(beside=beside)).loaded.value
    asked = _asked(wanted, profile)
    with tempfile.TemporaryDirectory(prefix="jobgen-bench-") as name:
        folder = Path(name)
        (folder / bench_job.PROGRAM).mkdir()
        for part in bench_job.PARTS:
            path = f"{bench_job.PROGRAM}/{part}.py"
            (folder / path).write_text(payload.text(f"bench_collectives/{part}.py"), "utf-8")
        file = folder / "job.yaml"
        file.write_text(bench_job.format_job(asked, profile, like), "utf-8")
        yield prepare(world, file, named, sets, made=GeneratedJob(LABEL, beside or folder))


def record_bench(made: PreparedJob) -> Mapping[str, Any]:
    """For the record of the run: what its result will be judged by, whatever becomes of the
    profile."""
    profile, size = made.profile.value, made.plan.shape
    known = find_limit(profile, size.nodes)
    net = made.plan.env.get("NCCL_NET")
    fabric = "loopback" if profile.scheduler == "local" else profile.network.fabric
    told = {
        "kind": "allreduce",
        "nodes": size.nodes,
        "limit": known and known._asdict(),
        "fabric": fabric,
        "gpus": size.gpus_per_node > 0,
        "net": net.value if net else "",
        "profile": digest_machine(profile),
    }
    return {KEY: told}


def digest_machine(profile: ClusterProfile) -> str:
    """What names the machine of a profile: its nodes and its network, not its paths."""
    return hashlib.sha256(repr((profile.nodes, profile.network)).encode()).hexdigest()[:16]


def read(world: World, ref: str) -> Judged:
    """The result of a bench as it is now, read from its run directory, judged, and kept.

    Raises Missing where there is none, and Unreachable.
    """
    from jobgen.transport.files import read_at

    record = world.ledger.get(ref)
    told = record.shape.get(KEY)
    if not isinstance(told, dict) or told.get("kind") != "allreduce":
        raise Usage(
            f"{record.alias} is not an all-reduce bench", hint="list all runs: jobgen ls -a"
        )
    found = None
    if record.directory:
        path = f"{record.directory}/state/0/{bench_job.RESULT}"
        with world.connect(record.site.login) as transport:
            found = read_at(transport, path, 0, results.LIMIT)
    if found is None:
        hint = f"jobgen logs {record.alias}; after it has run: --read {record.alias}"
        raise Missing(f"{record.alias} has no measurements ({record.state})", hint=hint)
    judged = _judged(record, told, results.read(found.data.decode("utf-8", "replace")))
    return judged._replace(record=_kept(world, judged, told))


def _asked(wanted: AllreduceRequest, profile: ClusterProfile) -> bench_job.BenchRequest:
    nodes = wanted.nodes or bench_job.choose_nodes(profile, pairs=wanted.pairs)
    if wanted.pairs and nodes < 2:
        hint = "to find the slow node, use --nodes 3 or more"
        raise Usage("--pairs needs two nodes", hint=hint)
    sizes = wanted.sizes or bench_job.choose_sizes(profile)
    kinds = (wanted.pairs, wanted.tests)
    return bench_job.BenchRequest(nodes, wanted.ops, sizes, *kinds, seconds=wanted.seconds)


def _like(world: World, path: Path | None) -> Mapping[str, Any]:
    if path is None:
        return {}
    from jobgen.load import load_job
    from jobgen.source import parse

    text, label = world.read(path), world.format_path(path)
    load_job(text, label)
    return parse(text, label).data


def _judged(record: RunRecord, told: Mapping[str, Any], bench: results.Bench) -> Judged:
    known = told.get("limit")
    limit = Limit(**known) if isinstance(known, dict) else None
    nodes = int(told.get("nodes", 1))
    verdicts = []
    for op in formulas.OPS:
        best = find_top(bench.select(op))
        if best is not None:
            case = BenchCase(
                bench,
                best,
                limit,
                str(told.get("fabric", "none")),
                bool(told.get("gpus")),
                nodes,
                str(told.get("net") or "IB"),
            )
            verdicts.append((op, judge(case)))
    line = formulas.fit([(p.bytes, p.median) for p in bench.select("all_reduce")])
    table = nccl.parse_table(bench.tests) if bench.tests else None
    named = node_pairs.judge_nodes(bench.pairs)
    return Judged(record, bench, limit, tuple(verdicts), line, named, table)


def _kept(world: World, judged: Judged, told: Mapping[str, Any]) -> RunRecord:
    """The record with what the planner may go by, written down once the bench has ended."""
    best, record = judged.top, judged.record
    if best is None or not judged.bench.ended or judged.bench.faulty or "measured" in told:
        return record
    measured = {
        "busbw": best.bus,
        "alpha": judged.fit.alpha if judged.fit else None,
        "ranks": judged.bench.ranks,
        "backend": judged.bench.backend,
    }
    said = f"all-reduce measured: {best.bus / 1e9:.3g} GB/s bus bandwidth"
    shape = {**record.shape, KEY: {**told, "measured": measured}}
    return world.ledger.update(record.token, shape=shape, event=(KEY, said))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
