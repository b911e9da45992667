"""deepspeed: with --no_ssh one launcher on every node by srun, or over pdsh on request.

The hostfile is made in the job from its allocation. Grammar, flags and what is exported: DeepSpeed
0.17 to 0.19, launcher/runner.py, multinode_runner.py and launch.py.
"""

from __future__ import annotations

from jobgen import payload
from jobgen.launch import (
    BUNDLE,
    RANK,
    Launch,
    LaunchRequest,
    expand_args,
    join_lines,
    name_program,
    require_program,
)
from jobgen.model.bundle import BundleFile
from jobgen.model.decision import Setting
from jobgen.model.plan import Part, Step
from jobgen.shell import Raw, Word

_CONFIG = "ds_config.json"
_MEET = (Raw('--master_addr="$MASTER_ADDR"'), Raw('--master_port="$MASTER_PORT"'))

_ENV = "deepspeed_env.sh"


def launch(request: LaunchRequest) -> Launch:
    """The hostfile, then a launcher on every node: by srun, or over ssh from the head."""
    pdsh = request.launcher.ssh == "pdsh" and request.shape.nodes > 1
    node = _pdsh(request) if pdsh else _srun(request)
    slots = request.shape.ranks_per_node
    hostfile = (
        "# DeepSpeed's hostfile, from Slurm's list of nodes\n"
        f'printf \'%s slots={slots}\\n\' "${{HOSTS[@]}}" >"$JOBGEN_STATE_DIR/{request.hostfile}"'
    )
    why = (
        "deepspeed on the first node starts the others over ssh"
        if pdsh
        else "srun starts one deepspeed per node: no ssh between nodes"
    )
    return Launch(
        Step("launch", "once" if pdsh else "node", node, why=why, place=request.place),
        before=(Step("hostfile", "once", hostfile, why="DeepSpeed hostfile: nodes and slots"),),
        part=_part(request, pdsh=pdsh),
    )


def _name_hostfile(request: LaunchRequest) -> Word:
    return Raw(f'--hostfile="$JOBGEN_STATE_DIR/{request.hostfile}"')


def _srun(request: LaunchRequest) -> str:
    # no GPU at all is something given, too: on a machine that has some, none may be seen
    visible = "export JOBGEN_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES-unset}"
    command = join_lines(
        (
            "exec",
            *name_program(request, "deepspeed"),
            _name_hostfile(request),
            "--no_ssh",
            Raw('--node_rank="$SLURM_NODEID"'),
        ),
        (*_MEET, *expand_args(request.launcher.args)),
        ("--no_python", "--no_local_rank", *RANK),
    )
    return "\n".join([require_program("deepspeed", request), visible, command])


def _pdsh(request: LaunchRequest) -> str:
    command = join_lines(
        ("exec", *name_program(request, "deepspeed"), _name_hostfile(request), "--launcher=pdsh"),
        (*_MEET, *expand_args(request.launcher.args)),
        ("--no_python", "--no_local_rank", *RANK),
    )
    env = f'# shellcheck source=/dev/null\nsource "{BUNDLE}/{_ENV}"'
    return "\n".join([require_program("deepspeed", request), require_program("pdsh"), env, command])


def _part(request: LaunchRequest, *, pdsh: bool) -> Part:
    """``JOBGEN_DEEPSPEED_CONFIG``, where the program finds the configuration that the job names."""
    files = (BundleFile(_ENV, payload.text(_ENV).encode()),) if pdsh else ()
    asked = request.launcher.config
    if not asked:
        return Part("deepspeed", files=files)
    why = "configuration named by launcher.config"
    place = f"$JOBGEN_WORK_DIR/{asked.replace('$', '$$')}"
    if request.config is not None:
        place = f"{BUNDLE}/{_CONFIG}"
        files = (*files, BundleFile(_CONFIG, request.config))
    env = {"JOBGEN_DEEPSPEED_CONFIG": Setting(place, why, request.place)}
    return Part("deepspeed", env=env, files=files)
