"""Words that people bring from elsewhere, and the ones we use; what an unknown key may mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobgen.model.form import Form, Key

Path = tuple[str | int, ...]


class WholeHint(str):
    """A whole hint, for a key without a successor."""

    __slots__ = ()


# Keys of job.yaml that later versions bring, and what to do today.
LATER: Mapping[tuple[str, ...], str] = {
    ("sweep",): "jobgen submit --set, once per value",
    ("array",): "slurm: {array: 0-35}; each element reads $SLURM_ARRAY_TASK_ID",
    ("steps",): "one job per step, connected by after",
    ("track",): "start the tracker in the program, with its credentials under secrets",
    ("notify",): "slurm: {mail-type: END}",
}

# A key that another tool would want here → what to write. Under "" for every mapping.
FOREIGN: Mapping[tuple[str, ...], str] = {
    ("num_nodes",): "nodes",
    ("nnodes",): "nodes",
    ("node_count",): "nodes",
    ("instances",): "nodes",
    ("replicas",): "nodes",
    ("num_workers",): "nodes",
    ("min_nodes",): "nodes: MIN:MAX",
    ("max_nodes",): "nodes: MIN:MAX",
    ("resources",): "nodes and gpus_per_node at the top of the file",
    ("accelerators",): "gpus_per_node",
    ("gpus",): "gpus_per_node",
    ("num_gpus",): "gpus_per_node",
    ("gpu",): "gpus_per_node",
    ("gres",): "gpus_per_node",
    ("gpus_per_task",): "gpus_per_node",
    ("nproc_per_node",): "gpus_per_node, or procs_per_node if nodes have no GPUs",
    ("procs",): "procs_per_node",
    ("ntasks_per_node",): "gpus_per_node, or procs_per_node if nodes have no GPUs",
    ("tasks_per_node",): "gpus_per_node, or procs_per_node if nodes have no GPUs",
    ("ntasks",): "nodes and gpus_per_node",
    ("cpus",): "cpus_per_task",
    ("num_cpus",): "cpus_per_task",
    ("memory",): "mem",
    ("ram",): "mem",
    ("timeout",): "time",
    ("time_limit",): "time",
    ("timelimit",): "time",
    ("walltime",): "time",
    ("wall_time",): "time",
    ("duration",): "time",
    ("max_time",): "time",
    ("envs",): "env",
    ("environment",): "env",
    ("env_vars",): "env",
    ("variables",): "vars",
    ("params",): "vars",
    ("parameters",): "vars",
    ("secret",): "secrets",
    ("command",): "run",
    ("commands",): "run",
    ("cmd",): "run",
    ("script",): "run",
    ("entrypoint",): "run",
    ("program",): "run",
    ("args",): "run, after the program",
    ("image",): "container: IMAGE",
    ("docker",): "container: {image: IMAGE, runtime: docker}",
    ("singularity",): "container: {image: IMAGE, runtime: apptainer}",
    ("image_id",): "container: IMAGE",
    ("mounts",): "container: {mounts: [SOURCE:TARGET]}",
    ("volumes",): "container: {mounts: [SOURCE:TARGET]}",
    ("file_mounts",): "container: {mounts: [SOURCE:TARGET]}, or put the files into the workdir",
    ("job_name",): "name",
    ("jobname",): "name",
    ("modules",): "setup, as 'module load NAME'",
    ("module",): "setup, as 'module load NAME'",
    ("conda",): "setup, as 'source …/bin/activate ENV'",
    ("venv",): "setup, as 'source VENV/bin/activate'",
    ("prolog",): "setup",
    ("pre_run",): "setup",
    ("working_dir",): "workdir",
    ("working_directory",): "workdir",
    ("chdir",): "workdir",
    ("cwd",): "workdir",
    ("code",): "workdir",
    ("dependency",): "after",
    ("depends_on",): "after",
    ("needs",): "after",
    ("tags",): "labels",
    ("signal",): "checkpoint: {signal: USR1}",
    ("requeue",): "checkpoint: {requeue: true}",
    ("deepspeed",): "launcher: {type: deepspeed, config: ds_config.json}",
    ("torchrun",): "launcher: torchrun",
    ("hooks",): WholeHint("remove it; run hooks before and after jobgen submit --wait"),
    ("nccl", "profile"): WholeHint("remove it; the settings are derived from the cluster profile"),
    ("fabric",): "network.fabric in the cluster profile",
    ("nccl_version",): "versions: {nccl: 2.27.7}",
    ("cuda_version",): "versions: {cuda: 12.8}",
    ("driver_version",): "versions: {driver: 580.95.5}",
    ("torch_version",): "versions: {torch: 2.9.0}",
    ("version",): "versions, or slurm_version",
    ("login",): "ssh",
    ("hostname",): "ssh: {host: NAME}",
    ("host",): "ssh: {host: NAME}",
    ("user",): "ssh: {user: NAME}",
    ("work",): "paths: {root: PATH}",
    ("root",): "paths: {root: PATH}",
    ("max_time_limit",): "limits: {time: 24h}",
    ("launcher", "nproc_per_node"): "gpus_per_node at the top of the file",
    ("launcher", "nnodes"): "nodes at the top of the file",
    ("launcher", "rdzv_backend"): "rdzv",
    ("launcher", "backend"): "rdzv",
    ("launcher", "name"): "type",
    ("launcher", "kind"): "type",
    ("launcher", "hostfile"): WholeHint("remove it; the hostfile is created from the allocation"),
    ("launcher", "config_file"): "config",
    ("container", "name"): "image",
    ("container", "volumes"): "mounts",
    ("container", "binds"): "mounts",
    ("container", "type"): "runtime",
    ("container", "options"): "args",
    ("checkpoint", "path"): "dir",
    ("checkpoint", "directory"): "dir",
    ("checkpoint", "grace_period"): "grace",
    ("checkpoint", "max_requeue"): "max_requeues",
    ("workdir", "exclude"): "ignore",
    ("ssh", "hostname"): "host",
    ("ssh", "username"): "user",
    ("ssh", "identity_file"): "IdentityFile in ~/.ssh/config",
    ("ssh", "identityfile"): "IdentityFile in ~/.ssh/config",
    ("ssh", "key"): "IdentityFile in ~/.ssh/config",
    ("ssh", "key_file"): "IdentityFile in ~/.ssh/config",
    ("ssh", "private_key"): "IdentityFile in ~/.ssh/config",
    ("ssh", "proxy_jump"): "ProxyJump in ~/.ssh/config",
    ("ssh", "proxyjump"): "ProxyJump in ~/.ssh/config",
    ("ssh", "jump_host"): "ProxyJump in ~/.ssh/config",
    ("nodes", "gpus"): "gpus_per_node",
    ("nodes", "gpu_type"): "gpu",
    ("nodes", "num"): "count",
    ("nodes", "memory"): "mem",
    ("nodes", "cores"): "cpus",
    ("network", "type"): "fabric",
    ("network", "kind"): "fabric",
    ("network", "interface"): "socket_ifname",
    ("network", "ifname"): "socket_ifname",
    ("network", "hca"): "ib_hca",
    ("network", "bandwidth"): "nic_gbps",
}

# Keys of ssh that are refused on purpose, each with its why.
REFUSED_SSH = {
    "forward_agent": "agent forwarding gives root on that host access to your keys",
    "forward_x11": "X11 forwarding gives the other side access to your display",
    "x11": "X11 forwarding gives the other side access to your display",
    "strict_host_key_checking": "host keys are always verified",
    "host_key_checking": "host keys are always verified",
    "insecure": "host keys are always verified",
    "verify_host_key": "host keys are always verified",
    "known_hosts": "host keys are verified against your own known_hosts",
    "user_known_hosts_file": "host keys are verified against your own known_hosts",
    "known_hosts_file": "host keys are verified against your own known_hosts",
    "proxy_command": "it would run a command from a profile that others may have written",
    "local_command": "it would run a command from a profile that others may have written",
    "password": (
        "passwords must not be stored in a file; use a key, an agent or keyboard-interactive login"
    ),
    "passphrase": "passphrases must not be stored in a file; use an agent",
    "options": "ssh options belong in your ~/.ssh/config",
    "config": "ssh options belong in your ~/.ssh/config",
}


def normalize_key(word: str) -> str:
    """A key without its dialect: ForwardAgent, forward-agent and forward_agent are one."""
    snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in word).strip("_")
    plain = snake.replace("-", "_").replace(" ", "_")
    return plain if "_" in plain or word.islower() else word.lower()


def translate(path: Path) -> str:
    """What to write instead of this key; empty where it is no known foreign word."""
    *above, last = (str(p) for p in path)
    inner = [p for p in above if not p.isdigit()][-1:]
    return FOREIGN.get((*inner, normalize_key(last)), "")


def find_sibling(path: Path, siblings: Mapping[str, Key]) -> str:
    """The key beside this one that was probably meant; empty where none is near."""
    from jobgen.model.fields import find_nearest

    words: Sequence[str] = [n for n, k in siblings.items() if not k.hidden]
    word = normalize_key(str(path[-1]))
    return word if word in words else find_nearest(word, words, 0.7)


def find_section(word: str, top: type[Form]) -> str:
    """The mapping of this form that has such a key, as ``checkpoint``; empty where none has."""
    for name, key in top.keys.items():
        inner = get_form(key)
        if inner is not None and word in inner.keys and not inner.keys[word].hidden:
            return name
    return ""


def get_form(key: Key) -> type[Form] | None:
    """The form that a key's value is; None where it is none."""
    schema = key.check.schema
    options = [schema, *schema.get("anyOf", ())]
    return next((s["form"] for s in options if isinstance(s.get("form"), type)), None)
