"""What a container cannot be entered with on this cluster, and what it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic
from jobgen.model.container import BY_SRUN
from jobgen.model.launchers import name_starter
from jobgen.resolve import registry_login
from jobgen.resolve.container_image import find_container, format_image, is_file
from jobgen.resolve.inputs import Inputs
from jobgen.resolve.site_runtimes import check_site_runtime

if TYPE_CHECKING:
    from jobgen.model.container import Container


def list_notes(look: Inputs) -> list[Diagnostic]:
    """What a container leaves out, and what every node does again."""
    asked, _ = find_container(look)
    if asked is None or asked.runtime not in BY_SRUN:
        return []
    imports = _imports(look, asked) if asked.runtime == "pyxis" else []
    return [*imports, *_no_setup(look, asked.runtime)]


def _imports(look: Inputs, asked: Container) -> list[Diagnostic]:
    """pyxis: srun has each node import an image that is no file."""
    name = format_image(asked.image, asked.runtime)
    if look.job.nodes < 2 or is_file(name):
        return []
    message = f"all {look.job.nodes} nodes pull {name} from its registry"
    hint = f"import it once to a shared disk (enroot import -o FILE.sqsh 'docker://{name}') and "
    hint += "set container: /shared/FILE.sqsh; unnecessary if the site's pyxis caches images"
    asks = look.spec if look.job.container is not None else look.profile
    keys = ("container",) if look.job.container is not None else ("defaults", "container")
    return [Diagnostic("J219", message, asks.find_place(*keys), hint, severity="note")]


def _no_setup(look: Inputs, runtime: str) -> list[Diagnostic]:
    if not look.cluster.defaults.setup:
        return []
    message = (
        f"the cluster's setup is skipped: with {runtime}, srun enters the container before any "
        "script runs"
    )
    place = look.profile.find_place("defaults", "setup")
    hint = (
        "repeat the lines that the program needs under setup: in the job; they run inside the "
        "container"
    )
    return [Diagnostic("J218", message, place, hint, severity="note")]


def check_container(look: Inputs, launcher: str) -> list[Diagnostic]:
    """Containers that cannot be entered on this cluster, or by this launcher."""
    asked, _ = find_container(look)
    if asked is None:
        return []
    if asked.runtime in BY_SRUN and look.local:
        plugin = f"container: {asked.runtime} is a Slurm plug-in"
        message = f"{plugin}, and this machine does not run Slurm"
        hint = "write container: {image: IMAGE, runtime: docker} or runtime: apptainer, or choose "
        hint += "another cluster with -c"
        return [look.diagnose_job("J216", message, "container", "runtime", hint=hint)]
    starter = name_starter(launcher, look.job.launcher.ssh)
    if starter and look.job.nodes > 1:
        return [_describe_outside(look, launcher, starter)]
    return [
        *_unknown_gpus(look, asked),
        *registry_login.check_login(look, asked),
        *check_site_runtime(look, asked),
    ]


def _describe_outside(look: Inputs, launcher: str, starter: str) -> Diagnostic:
    """Ranks that do not start where the container is."""
    if starter == launcher:
        message = f"{launcher} starts the ranks of other nodes outside the container"
        hint = "set launcher: srun, which starts each rank in the container"
        return look.diagnose_job("J216", message, "launcher", hint=hint)
    message = f"{launcher} with pdsh starts its ranks over ssh, outside the container"
    hint = f"remove ssh: pdsh; srun then starts {launcher} in the container on every node"
    return look.diagnose_job("J216", message, "launcher", "ssh", hint=hint)


def _unknown_gpus(look: Inputs, asked: Container) -> list[Diagnostic]:
    """Part of a node's GPUs under docker, on a cluster whose Slurm does not assign GPUs."""
    there, wanted = look.cluster.nodes.gpus_per_node, look.job.gpus_per_node
    part = wanted is not None and 0 < wanted < there
    if asked.runtime != "docker" or look.cluster.gpu_request != "none" or not part:
        return []
    message = (
        f"docker on {wanted} of {there} GPUs of a node, but Slurm assigns no GPUs on this cluster"
    )
    hint = f"docker would use all of them; set gpus_per_node: {there}, or use another runtime"
    return [look.diagnose_job("J216", message, "gpus_per_node", hint=hint)]
