"""torchrun: one agent a node, which starts the node's ranks. The default.

c10d rendezvous, with what torch would else guess said outright: who hosts the store (``is_host``;
its own test of the host name has false negatives), and each node's address (``--local-addr``;
else the FQDN, which need not resolve elsewhere). Option names exist since torch 2.0.
"""

from __future__ import annotations

from jobgen.launch import (
    RANK,
    Launch,
    LaunchRequest,
    expand_args,
    join_lines,
    name_program,
    require_program,
)
from jobgen.model.decision import Setting
from jobgen.model.plan import Part, Step
from jobgen.shell import Raw, Word

JOIN = 900
"""Seconds for all nodes to arrive: a cold file system starts Python slowly. torch's own is 600."""
READ = 120
"""Seconds for the store to answer. torch's own is 60."""

_ENDPOINT = '--rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT"'
_FINISHED = """\
rc=$?
trap - EXIT
((rc == 0)) || exit "$rc"
# all ranks have succeeded: the batch shell need not wait for a lost node
: >"$JOBGEN_STATE_DIR/finished.$JOBGEN_RESTART\""""


def launch(request: LaunchRequest) -> Launch:
    """One agent on every node, by srun."""
    static = request.launcher.rdzv == "static"
    node = _static(request) if static else _c10d(request)
    why = "one torchrun per node starts the node's ranks"
    elastic: tuple[Word, ...] = ("--no-kill",) if request.shape.min_nodes else ()
    step = Step("launch", "node", node, why=why, place=request.place)
    return Launch(step, srun=elastic, part=_part(request, static=static))


def _part(request: LaunchRequest, *, static: bool) -> Part:
    """A store of its own for every start of the ranks, where torchrun may start them again.

    From torch 2.5 on the ranks meet in a store of the agents', which outlives them: started anew,
    they read each other's old addresses and never meet. Tried with 2.13 and gloo.
    """
    if static or not request.launcher.max_restarts:
        return Part("torchrun")
    why = "a restart gets a clean store: no keys of the previous ranks"
    env = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": Setting("1", why, request.place)}
    return Part("torchrun", env=env)


def _c10d(request: LaunchRequest) -> str:
    # 1 on the first node only: evaluated on the node, never in the batch shell
    conf = f'--rdzv-conf="is_host=$((SLURM_NODEID == 0)),join_timeout={JOIN},read_timeout={READ}"'
    elastic = request.shape.min_nodes is not None
    command = join_lines(
        (
            *(() if elastic else ("exec",)),
            *name_program(request, "torchrun"),
            f"--nnodes={_nodes(request)}",
            _ranks(request),
        ),
        ("--rdzv-backend=c10d", Raw('--rdzv-id="$RDZV_ID"'), Raw(_ENDPOINT)),
        (Raw(conf), Raw(f"--local-addr={request.address}")),
        *_finish(request),
    )
    return "\n".join(
        [require_program("torchrun", request), command, *([_FINISHED] if elastic else [])]
    )


def _static(request: LaunchRequest) -> str:
    # node 0 hosts the store and ranks follow the order of the nodes
    command = join_lines(
        (
            "exec",
            *name_program(request, "torchrun"),
            f"--nnodes={_nodes(request)}",
            _ranks(request),
        ),
        (
            Raw('--node-rank="$SLURM_NODEID"'),
            Raw('--master-addr="$MASTER_ADDR"'),
            Raw('--master-port="$MASTER_PORT"'),
        ),
        (f"--rdzv-conf=timeout={JOIN}", Raw(f"--local-addr={request.address}")),
        *_finish(request),
    )
    return "\n".join([require_program("torchrun", request), command])


def _finish(request: LaunchRequest) -> tuple[tuple[Word, ...], ...]:
    """The last lines of the command; the user's own arguments stand on a line of their own."""
    restarts = f"--max-restarts={request.launcher.max_restarts}"
    if not request.launcher.args:
        return ((restarts, "--no-python", *RANK),)
    return ((restarts, *expand_args(request.launcher.args)), ("--no-python", *RANK))


def _nodes(request: LaunchRequest) -> str:
    least = request.shape.min_nodes
    return f"{least}:{request.shape.nodes}" if least else str(request.shape.nodes)


def _ranks(request: LaunchRequest) -> str:
    return f"--nproc-per-node={request.shape.ranks_per_node}"
