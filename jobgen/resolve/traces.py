"""Where a crash or a hang of a job that uses NCCL leaves its traces.

Read: torch 2.2 to 2.13, FlightRecorder.cpp (DebugInfoWriter::getWriter). By default dumps go to
the node's /tmp or to the home directory; of two names the newer one wins, and the folder has to
be there.
"""

from __future__ import annotations

from jobgen.model.decision import Setting, cite_rule
from jobgen.model.plan import Part, Shape
from jobgen.model.units import Release
from jobgen.resolve.inputs import Inputs

_OLD, _NEW = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"
_WHY = {
    _NEW: "NCCL flight recorder: dumped on a timeout",
    _OLD: "same, for torch before 2.8",
}
_RENAMED = Release.parse("2.8")
_PREFIX = "$JOBGEN_LOG_DIR/nccl_trace_rank_"


def build_traces(look: Inputs, shape: Shape) -> Part:
    """The variables for the stacks of crashed ranks and for the dumps of the flight recorder."""
    if look.widen_network(shape).nodes * shape.gpus_per_node < 2:
        return Part("traces")
    why = "print Python stack traces on a crash"
    env = {"PYTHONFAULTHANDLER": Setting("1", why, cite_rule("traces"))}
    env |= {name: Setting(_PREFIX, _WHY[name], cite_rule("traces")) for name in _names(look)}
    return Part("traces", env=env)


def _names(look: Inputs) -> tuple[str, ...]:
    """What the installed torch reads; nothing where somebody has said it under either name."""
    cluster, job = look.cluster, look.job
    named = cluster.defaults.env.keys() | cluster.network.env.keys()
    if {_OLD, _NEW} & (named | job.nccl.env.keys() | job.env.keys()):
        return ()
    torch = cluster.versions.torch
    if torch is None:
        return (_NEW, _OLD)
    return (_OLD,) if torch < _RENAMED else (_NEW,)
