"""accelerate launch: one on every node, which starts the node's ranks through torch's agent.

Its defaults come from a file of the user's home directory, if there is one; so a file is always
named, and everything that ``accelerate config`` would ask is said. Read: accelerate 1.10 to 1.14,
commands/launch.py and utils/launch.py.
"""

from __future__ import annotations

import posixpath
import re

from jobgen.launch import (
    RANK,
    Launch,
    LaunchRequest,
    expand_args,
    export_ranks,
    join_lines,
    name_program,
    require_program,
)
from jobgen.launch.torchrun import JOIN
from jobgen.model.bundle import BundleFile
from jobgen.model.plan import Part, Step
from jobgen.shell import Raw, Word, quote_expandable

_FILE = "accelerate.yaml"
_DEEPSPEED_FILE = re.compile(
    r"""^[^#\n]*\bdeepspeed_config_file["']?:\s*["']?([^\s"'#,}]+)""", re.M
)
_OURS = """\
# Named on the command line so that no file of the home directory is read instead.
compute_environment: LOCAL_MACHINE
distributed_type: 'NO'
num_machines: 1
num_processes: 1
mixed_precision: 'no'
use_cpu: false
debug: false
"""


def launch(request: LaunchRequest) -> Launch:
    """``--num_processes`` is the total; ``--same_network`` makes the head's address the store's."""
    shape, asked = request.shape, request.launcher
    config, files = _config(request)
    # --multi_gpu starts ranks, which use gloo where there is no GPU; --cpu would start one process
    kind: tuple[Word, ...] = ("--mixed_precision=no", "--dynamo_backend=no")
    if shape.world > 1:
        kind = ("--multi_gpu", *kind)
    if asked.config or request.config is not None:
        # pdsh is its default for DeepSpeed, and would ssh from every node to every node
        kind = ("--deepspeed_multinode_launcher=standard",)
    command = join_lines(
        ("exec", *_name_launch(request), config, *kind),
        (
            f"--num_machines={shape.nodes}",
            f"--num_processes={shape.world}",
            Raw('--machine_rank="$SLURM_NODEID"'),
        ),
        (
            Raw('--main_process_ip="$MASTER_ADDR"'),
            Raw('--main_process_port="$MASTER_PORT"'),
            "--same_network",
        ),
        ("--rdzv_backend=static", f"--rdzv_conf=timeout={JOIN}", *expand_args(asked.args)),
        ("--no_python", *RANK),
    )
    alone = [export_ranks("1", world="1", rank="0", index="0")] if shape.world == 1 else []
    text = "\n".join([require_program("accelerate", request), *alone, command])
    why = "one accelerate per node starts the node's ranks"
    step = Step("launch", "node", text, why=why, place=request.place)
    return Launch(step, part=Part("accelerate", files=files))


def _name_launch(request: LaunchRequest) -> tuple[Word, ...]:
    """``accelerate launch``; ``launcher.command`` may name the subcommand, or leave it to us."""
    words = name_program(request, "accelerate")
    return words if request.launcher.command[-1:] == ("launch",) else (*words, "launch")


def name_deepspeed_file(config: bytes) -> str:
    """The DeepSpeed configuration that a file of accelerate's names, relative to the workdir.

    Empty where it names none, or one that is known on the cluster only.

    >>> name_deepspeed_file(b"deepspeed_config:\\n  deepspeed_config_file: ./conf/ds.json")
    'conf/ds.json'
    """
    match = _DEEPSPEED_FILE.search(config.decode("utf-8", "replace"))
    path = posixpath.normpath(match.group(1)) if match else ""
    return "" if path.startswith(("/", "~", "..")) or "$" in path else path


def _config(request: LaunchRequest) -> tuple[Word, tuple[BundleFile, ...]]:
    """``--config_file``: the strategy's or the user's own, copied; else ours."""
    asked = request.launcher.config
    if asked and request.config is None:
        path = quote_expandable(f"$JOBGEN_WORK_DIR/{asked.replace('$', '$$')}")
        return Raw(f"--config_file={path}"), ()
    content = _OURS.encode() if request.config is None else request.config
    return Raw(f'--config_file="$JOBGEN_BUNDLE_DIR/{_FILE}"'), (BundleFile(_FILE, content),)
