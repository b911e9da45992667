"""mpirun of Open MPI: once on the first node, which starts the ranks of all nodes.

rank.sh turns Open MPI's numbers into torch's. Tried with Open MPI 4.1 and Slurm 22.05; Open MPI 5,
whose settings of the run-time are named PRTE_*, was not tried.
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
from jobgen.model.plan import Step
from jobgen.shell import Raw

_DAEMONS = """\
# srun starts mpirun's daemons: they get this environment and all CPUs, and end with the job.
# PRTE_* is for Open MPI 5 and newer.
export OMPI_MCA_plm=slurm PRTE_MCA_plm=slurm SLURM_CPU_BIND=none SLURM_WAIT=0"""


def launch(request: LaunchRequest) -> Launch:
    """The hostfile, then one ``mpirun`` on the first node."""
    shape = request.shape
    several = shape.nodes > 1
    hostfile = f'"$JOBGEN_STATE_DIR/{request.hostfile}"'
    command = join_lines(
        ("exec", *name_program(request, "mpirun"), "-np", str(shape.world)),
        (
            *("--hostfile", Raw(hostfile)),
            *("--map-by", f"ppr:{shape.ranks_per_node}:node", "--bind-to", "none"),
        ),
        expand_args(request.launcher.args),
        RANK,
    )
    slots = (
        "# mpirun reads its slots here, and Slurm counts one task per node\n"
        f'export SLURM_TASKS_PER_NODE="{shape.ranks_per_node}(x$SLURM_JOB_NUM_NODES)"'
    )
    settings = [slots, *([_DAEMONS] if several else [])]
    text = "\n".join([require_program("mpirun", request), *settings, command])
    write = (
        "# Open MPI's hostfile, from Slurm's list of nodes\n"
        f"printf '%s slots={shape.ranks_per_node}\\n' \"${{HOSTS[@]}}\" >{hostfile}"
    )
    why = "one mpirun on the first node starts the ranks of all nodes"
    return Launch(
        Step("launch", "once" if several else "node", text, why=why, place=request.place),
        before=(Step("hostfile", "once", write, why="Open MPI hostfile: nodes and slots"),),
    )
