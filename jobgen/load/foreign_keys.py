"""Keys of other tools, and what to write in jobgen's two files instead.

The words are those of sbatch, SkyPilot, submitit, accelerate, DeepSpeed, torchrun, Lightning and
Hugging Face's TrainingArguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

JOB, CLUSTER = "job", "cluster"

# What to write -> other tools' words for it. It is YAML, with a remark after a comma; "^" before it
# means at the top of the file. <EXAMPLE> is where the user's value goes if it fits there.
_JOB: Mapping[str, str] = {
    "nodes": "num_nodes n_nodes nnodes node_count instances replicas num_workers num_machines "
    "num_hosts machines hosts",
    "nodes: 1:4, for an elastic job": "max_nodes",
    "nodes and gpus_per_node": "resources ntasks num_tasks n_tasks num_processes world_size",
    "gpus_per_node, per node: divide a total by nodes": "accelerators accelerator gpus num_gpus "
    "n_gpus ngpus gpu gpu_count gpu_ids gres gpus_per_task gpus_per_worker devices",
    "gpus_per_node": "num_gpus_per_node",
    "gpus_per_node, or procs_per_node if the nodes have no GPUs": "nproc_per_node ntasks_per_node "
    "tasks_per_node nprocs_per_node ranks_per_node",
    "procs_per_node": "procs processes num_procs",
    "ranks_per_gpu": "tasks_per_gpu ntasks_per_gpu procs_per_gpu processes_per_gpu",
    "cpus_per_task, for each rank": "cpus cpu num_cpus ncpus cores num_cores vcpus cpus_per_gpu "
    "cpus_per_worker cpus_per_node",
    "mem": "memory ram mem_gb memory_gb mem_per_node",
    "time": "timeout time_limit timelimit walltime wall_time duration max_time timeout_min "
    "timeout_minutes hours minutes",
    "env": "envs environment env_vars environment_variables",
    "vars": "variables params parameters",
    "secrets": "secret",
    "run: <train.py>, or train: {wrap: …} for the layer class of FSDP": "wrap",
    "run": "command commands cmd script entrypoint program main exec",
    "run: train.py <ARGS>": "args arguments script_args program_args module_args",
    "container: <IMAGE>": "image image_id container_image",
    "container: {image: <IMAGE>, runtime: docker}": "docker docker_image",
    "container: {image: <IMAGE>, runtime: apptainer}": "singularity apptainer",
    "container: {image: <IMAGE>, runtime: pyxis}": "pyxis enroot",
    "container: {image: <IMAGE>, runtime: shifter}": "shifter",
    "container: {image: <IMAGE>, runtime: edf}": "edf",
    "container: {mounts: [<SOURCE:TARGET>]}": "mounts volumes binds container_mounts",
    "container: {mounts: [SOURCE:TARGET]}, or put the files into the workdir": "file_mounts "
    "storage_mounts",
    "slurm: {partition: <NAME>}": "queue partition_name",
    "name": "job_name jobname run_name experiment_name",
    "setup: module load <NAME>": "modules module",
    "setup: source VENV/bin/activate": "venv virtualenv python interpreter python_env",
    "setup: source PATH/bin/activate <ENV>": "conda conda_env",
    "setup": "prolog pre_run pre_command setup_commands requirements dependencies packages pip",
    "finally": "epilog teardown cleanup post_run post_command after_script",
    "workdir": "working_dir working_directory chdir cwd code source project_dir",
    "after": "dependency depends_on needs depends dependencies_of",
    "labels": "tags annotations",
    "checkpoint: {signal: <USR1>}": "signal slurm_signal_delay_s signal_delay",
    "checkpoint: {requeue: true}": "requeue retries max_retries restart restart_policy use_spot "
    "spot spot_recovery job_recovery preemptible resume_from_checkpoint auto_resume",
    "checkpoint: {chain: <3>}": "chain job_chain chained_jobs num_chained_jobs",
    "checkpoint: {dir: <PATH>}": "output_dir save_dir checkpoint_dir ckpt_dir checkpoint_path "
    "default_root_dir",
    "cluster": "cloud region zone infra instance_type partition_cluster",
    "launcher: torchrun": "torchrun rdzv_backend torch_distributed",
    "launcher: accelerate": "accelerate",
    "launcher: srun": "srun mpi",
    "launcher: mpirun": "mpirun",
    "launcher: {args: [<OPTION>]}": "torchrun_args launcher_args accelerate_args deepspeed_args",
    "launcher: {type: deepspeed, config: <ds_config.json>}": "deepspeed deepspeed_config "
    "deepspeed_config_file ds_config",
    "nccl: {debug: <INFO>}": "nccl_debug",
    "monitor: <30s>": "monitoring gpu_monitor",
    "slurm": "sbatch sbatch_args sbatch_options slurm_additional_parameters "
    "additional_parameters slurm_options slurm_args",
    "array: 0-35%4": "slurm_array_parallelism array_parallelism",
    "notify: {mail: <me@example.org>}": "mail email notification_email",
}

# The same for keys of train. At the top of the file they are answered with train: {...}.
_TRAIN: Mapping[str, str] = {
    "micro_batch, the samples of one rank; global_batch is that of all ranks": "batch_size",
    "micro_batch": "per_device_train_batch_size per_device_batch_size train_micro_batch_size "
    "train_micro_batch_size_per_gpu micro_batch_size batch_size_per_gpu local_batch_size mbs "
    "batch_size_per_device",
    "global_batch": "train_batch_size global_batch_size total_batch_size effective_batch_size gbs",
    "gradient_accumulation": "gradient_accumulation_steps grad_accumulation grad_accum "
    "grad_accum_steps accumulate_grad_batches accumulation_steps gas",
    "gradient_clipping": "max_grad_norm grad_clip gradient_clip gradient_clip_val clip_grad "
    "clip_grad_norm max_norm",
    "activation_checkpointing: <full>": "gradient_checkpointing activation_checkpoint "
    "fsdp_activation_checkpointing recompute recompute_activations recompute_granularity",
    "strategy": "distributed_type parallelism parallel distributed_strategy sharding",
    "strategy: ddp": "ddp",
    "strategy: <fsdp2>": "fsdp fsdp2 fsdp_config fsdp_version fsdp_sharding_strategy "
    "sharding_strategy",
    "strategy: zero1": "zero1",
    "strategy: zero2": "zero2",
    "strategy: <zero2>, or zero1 or zero3, by its stage": "zero zero_stage zero_optimization",
    "strategy: zero3": "zero3 zero3_init_flag",
    "precision: <bf16>": "mixed_precision bf16 dtype torch_dtype amp",
    "precision: fp16": "fp16",
    "seq_len": "seq_length sequence_length max_seq_len max_seq_length max_length context_length "
    "block_size seqlen",
    "framework: hf-trainer": "transformers trainer huggingface hf trl",
    "framework: lightning": "lightning pytorch_lightning",
    "framework: megatron": "megatron megatron_lm megatron_lm_config",
    "framework: torchtitan": "torchtitan",
    "offload: optimizer": "cpu_offload offload_optimizer offload_optimizer_device",
    "offload: params": "offload_param offload_params offload_param_device fsdp_offload_params",
    "tp": "tensor_parallel tensor_parallel_size tensor_model_parallel_size tp_size tp_degree",
    "pp": "pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size pp_size",
    "cp": "context_parallel context_parallel_size cp_size",
    "ep": "expert_parallel expert_parallel_size expert_model_parallel_size ep_size",
    "etp": "expert_tensor_parallel_size expert_tensor_parallel",
    "dp": "data_parallel data_parallel_size dp_size",
    "wrap": "auto_wrap_policy fsdp_auto_wrap_policy fsdp_transformer_layer_cls_to_wrap "
    "transformer_layer_cls_to_wrap",
    "optimizer": "optim",
    "lora": "peft qlora adapter lora_rank",
    "compiled": "torch_compile compile dynamo_backend dynamo_config",
    "model": "model_name model_name_or_path model_id base_model pretrained_model",
}

_CLUSTER: Mapping[str, str] = {
    "nodes: {count: <4>}": "num_nodes node_count nnodes machines",
    "nodes: {gpu: <A100-SXM4-80GB>}": "accelerators accelerator",
    "network: {fabric: <infiniband>}": "fabric interconnect",
    "versions: {nccl: <2.27.7>}": "nccl_version",
    "versions: {cuda: <12.8>}": "cuda_version",
    "versions: {driver: <580.95.5>}": "driver_version",
    "versions: {torch: <2.9.0>}": "torch_version",
    "slurm_version": "version",
    "ssh: {host: <NAME>}": "login hostname host login_node address",
    "ssh: {user: <NAME>}": "user username",
    "paths: {root: <PATH>}": "work root scratch workdir remote_dir",
    "limits: {time: <24h>}": "max_time_limit max_time time_limit walltime time",
    "defaults: {slurm: {partition: <NAME>}}": "queue",
}

# (section, what to write in it) -> the words for it
_SECTIONS: Mapping[tuple[str, str], str] = {
    ("launcher", "^gpus_per_node"): "nproc_per_node num_processes",
    ("launcher", "^nodes"): "nnodes num_machines",
    ("launcher", "rdzv"): "rdzv_backend backend",
    ("launcher", "type"): "name kind",
    ("launcher", "config"): "config_file",
    ("container", "image"): "name",
    ("container", "mounts"): "volumes binds",
    ("container", "runtime"): "type",
    ("container", "args"): "options",
    ("checkpoint", "dir"): "path directory output_dir",
    ("checkpoint", "grace"): "grace_period",
    ("checkpoint", "max_requeues"): "max_requeue",
    ("train", "strategy: <zero2>, or zero1 or zero3, by its stage"): "stage",
    ("workdir", "ignore"): "exclude",
    ("ssh", "host"): "hostname",
    ("ssh", "user"): "username",
    ("nodes", "gpus_per_node"): "gpus",
    ("nodes", "gpu"): "gpu_type",
    ("nodes", "count"): "num",
    ("nodes", "mem"): "memory",
    ("nodes", "cpus"): "cores",
    ("network", "fabric"): "type kind",
    ("network", "socket_ifname"): "interface ifname",
    ("network", "ib_hca"): "hca",
    ("network", "nic_gbps"): "bandwidth",
}

_HOURS = {r"\d+": r"time: \g<0>h"}
_MINUTES = {r"\d+": r"time: \g<0>m"}
_GIB = {r"\d+": r"mem: \g<0>G"}
_COUNT = {r"(?:[\w.-]+:)*(\d+)": r"gpus_per_node: \1, per node: divide a total by nodes"}
_STAGE = {"[123]": r"train: {strategy: zero\g<0>}"}
# Word at the top of job.yaml -> shapes of its value -> what to write for them.
REWRITES: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(("accelerators", "accelerator", "gres"), _COUNT),
    **dict.fromkeys(("zero", "zero_stage"), _STAGE),
    **dict.fromkeys(("timeout_min", "timeout_minutes", "minutes"), _MINUTES),
    **dict.fromkeys(("mem_gb", "memory_gb"), _GIB),
    "hours": _HOURS,
    "wrap": {r"[A-Z]\w+": r"train: {wrap: \g<0>}"},
    "max_nodes": {r"[1-9]\d*": r"nodes: 1:\g<0>, for an elastic job"},
    "slurm_array_parallelism": {r"[1-9]\d*": r"array: 0-35%\g<0>"},
    "array_parallelism": {r"[1-9]\d*": r"array: 0-35%\g<0>"},
    "signal": {
        r"(?:[BR]+:)?(?:SIG)?(USR[12])@(\d+)": r"checkpoint: {signal: \1, grace: \2s}",
        r"(?:[BR]+:)?(?:SIG)?(USR[12])": r"checkpoint: {signal: \1}",
    },
}

_PROGRAM = "pass it to the program, run: train.py"
_MADE = "jobgen sets up the rendezvous itself"
_LOGS = "see what every rank printed: jobgen logs ID"
_KEY = "name the key in ~/.ssh/config, as IdentityFile"
_JUMP = "name the jump host in ~/.ssh/config, as ProxyJump"
_NCCL = "write NCCL_* variables under nccl.env; the network's come from the cluster's profile"
_BY_MODULE = "jobgen writes accelerate's configuration itself, with launcher: accelerate"
# (section, reason) -> words that have no key in jobgen
_NONE: Mapping[tuple[str, str], str] = {
    ("", f"{_PROGRAM} --lr 1e-4"): "learning_rate lr",
    ("", f"{_PROGRAM} --epochs 3"): "epochs num_train_epochs num_epochs max_epochs",
    ("", f"{_PROGRAM} --ARGUMENT VALUE"): "max_steps train_iters warmup_steps warmup_ratio "
    "weight_decay seed save_steps save_strategy save_total_limit save_interval logging_steps "
    "eval_steps eval_strategy evaluation_strategy per_device_eval_batch_size lr_scheduler_type "
    "scheduler dataset dataset_name data_path report_to dataloader_num_workers ddp_timeout tf32 "
    "steps_per_print wall_clock_breakdown",
    ("", _MADE): "main_process_ip main_process_port master_addr master_port machine_rank "
    "node_rank rdzv_endpoint rdzv_id hostfile same_network standalone",
    (
        "",
        _LOGS,
    ): "error output logs log log_dir logdir logging_dir stdout stderr stderr_to_stdout folder",
    ("", _BY_MODULE): "compute_environment main_training_function downcast_bf16 use_cpu "
    "enable_cpu_affinity tpu_env tpu_use_cluster fp8_config",
    ("", "the cluster's profile describes the nodes"): "disk_size disk_tier any_of ordered "
    "network_tier autostop autodown ports",
    ("", "jobgen runs jobs on Slurm, and no services"): "service pool",
    ("", _NCCL): "nccl_env nccl_profile",
    ("", "run commands around jobgen submit --wait"): "hooks",
    ("", "list the runs: jobgen ls"): "status",
    ("", "a job is requeued only with checkpoint: {requeue: true}"): "no_requeue",
    ("nccl", "those of the network come from the cluster's profile"): "profile",
    ("launcher", "jobgen writes the hostfile from the allocation"): "hostfile",
    ("launcher", _MADE): "master_addr master_port rdzv_endpoint rdzv_id node_rank machine_rank",
    ("ssh", _KEY): "identity_file identityfile key key_file private_key",
    ("ssh", _JUMP): "proxy_jump proxyjump jump_host",
}


def _spread(table: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for write, words in table.items():
        for word in words.split():
            yield word, write


def _nest(write: str) -> str:
    """``tp`` in train → ``train: {tp: …}``, with its remark."""
    yaml, comma, remark = write.partition(",")
    name, _, value = yaml.partition(": ")
    return f"train: {{{name}: {value or '<…>'}}}{comma}{remark}"


def _collect() -> dict[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for word, write in _spread(_TRAIN):
        found[JOB, word], found[JOB, "train", word] = _nest(write), write
    for file, table in ((JOB, _JOB), (CLUSTER, _CLUSTER)):
        found |= {(file, word): write for word, write in _spread(table)}
    for (section, write), words in _SECTIONS.items():
        found |= {
            (file, section, word): write for word in words.split() for file in _files(section)
        }
    return found


def _files(section: str) -> tuple[str, ...]:
    """The files that have such a section."""
    return {"ssh": (CLUSTER,), "nodes": (CLUSTER,), "network": (CLUSTER,)}.get(section, (JOB,))


FOREIGN: Mapping[tuple[str, ...], str] = _collect()
"""File, section (none at the top) and another tool's word → what to write."""

NO_SUCH_KEY: Mapping[tuple[str, ...], str] = {
    (file, *filter(None, [section]), word): why
    for (section, why), words in _NONE.items()
    for word in words.split()
    for file in (_files(section) if section else (JOB,))
}
"""File, section and a word that jobgen has no key for → what to do."""
