"""What is decided, why, and what is refused."""

from __future__ import annotations

import pytest

from jobgen.errors import Invalid
from jobgen.model.plan import Plan
from tests.resolve.made import CPUS, GPUS, LOCAL, job, plan


def refused(text: str, cluster: str = GPUS) -> list[str]:
    """The codes of everything that is wrong, with the line that each is about."""
    with pytest.raises(Invalid) as caught:
        plan(text, cluster)
    found = caught.value.problems
    assert all(p.hint and p.place for p in found)
    return [f"{p.code}:{p.place.line if p.place else 0}" for p in found]


# ---- sizes


def test_all_gpus_of_a_node_are_meant_where_nothing_is_said() -> None:
    found = plan()
    assert (found.shape.gpus_per_node, found.shape.ranks_per_node, found.shape.world) == (8, 8, 16)
    assert str(found.directives["gpus-per-node"].place) == "cluster big:4"


def test_ranks_without_gpus_are_counted_by_the_job_then_by_the_cluster() -> None:
    assert plan(job(procs_per_node="5"), CPUS).shape.ranks_per_node == 5
    assert plan(job(), CPUS + "procs_per_node: 4\n").shape.ranks_per_node == 4
    assert plan(job(procs_per_node="5"), CPUS + "procs_per_node: 4\n").shape.ranks_per_node == 5
    assert plan(job(), CPUS).shape.ranks_per_node == 1
    assert plan(job(procs_per_node="5"), CPUS).other["procs_per_node"].value == 5


def test_procs_per_node_is_not_used_where_nodes_have_gpus_and_a_note_says_so() -> None:
    found = plan(job(procs_per_node="2"))
    assert found.shape.ranks_per_node == 8
    (note,) = [note for note in found.notes if note.code == "J227"]
    assert note.severity == "note"
    assert note.place is not None
    assert note.place.line == 5
    for keys, cluster in (({"gpus_per_node": "0"}, GPUS), ({}, CPUS), ({}, LOCAL)):
        found = plan(job(procs_per_node="2", **keys), cluster)
        assert found.shape.ranks_per_node == 2
        assert "J227" not in [note.code for note in found.notes]


def test_a_job_may_count_ranks_for_nodes_with_gpus_and_for_nodes_without() -> None:
    both = job(gpus_per_node="4", procs_per_node="2")
    for cluster, shape in ((GPUS, (4, 4)), (CPUS, (0, 2)), (LOCAL, (0, 2))):
        found = plan(both, cluster)
        assert (found.shape.gpus_per_node, found.shape.ranks_per_node) == shape


def test_gpus_are_simulated_by_ranks_on_this_machine_only() -> None:
    local = plan(job(gpus_per_node="2"), LOCAL)
    assert (local.shape.gpus_per_node, local.shape.ranks_per_node) == (0, 2)
    assert not any("gpu" in name for name in local.directives)
    assert refused(job(gpus_per_node="2"), CPUS) == ["J202:5"]


def test_a_job_may_do_without_the_gpus_of_a_node() -> None:
    found = plan(job(gpus_per_node="0", procs_per_node="4"))
    assert (found.shape.gpus_per_node, found.shape.ranks_per_node) == (0, 4)
    assert "gpus-per-node" not in found.directives


def test_cpus_are_those_of_each_rank_whatever_starts_it() -> None:
    torchrun = plan(job(cpus_per_task="6"))
    srun = plan(job(cpus_per_task="6", launcher="srun"))
    assert torchrun.directives["cpus-per-task"].value == "48"
    assert srun.directives["cpus-per-task"].value == "6"
    assert torchrun.env["OMP_NUM_THREADS"].value == srun.env["OMP_NUM_THREADS"].value == "6"


def test_cpus_are_the_share_of_the_gpus_where_nothing_is_said() -> None:
    assert plan(job(gpus_per_node="2")).directives["cpus-per-task"].value == "32"
    assert plan(job(gpus_per_node="2", launcher="srun")).directives["cpus-per-task"].value == "16"


def test_nothing_is_asked_for_that_neither_file_says() -> None:
    found = plan(job(nodes="1", procs_per_node="1"), LOCAL)
    assert [*found.directives] == [
        "job-name",
        "nodes",
        "ntasks-per-node",
        "time",
        "output",
        "open-mode",
        "no-requeue",
        "export",
    ]


# ---- limits


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"nodes": "9"}, "J201:2"),
        ({"gpus_per_node": "16"}, "J203:5"),
        ({"cpus_per_task": "17"}, "J205:5"),
        ({"time": "3d"}, "J206:3"),
        ({"mem": "2T"}, "J207:5"),
    ],
)
def test_a_limit_of_the_cluster_is_named_with_both_lines(keys: dict[str, str], code: str) -> None:
    cluster = GPUS + "limits: {time: 2d}\n"
    assert refused(job(**keys), cluster) == [code]
    with pytest.raises(Invalid, match=r"cluster big:\d"):
        plan(job(**keys), cluster)


def test_the_site_may_allow_fewer_nodes_than_there_are() -> None:
    assert refused(job(nodes="4"), GPUS + "limits: {nodes: 2}\n") == ["J201:2"]


def test_a_job_without_a_time_gets_that_of_the_partition() -> None:
    found = plan(job(time=""), GPUS + "limits: {default_time: 90m}\n")
    assert found.shape.seconds == 5400
    assert found.directives["time"].value == "01:30:00"
    assert str(found.directives["time"].place) == "cluster big:6"
    own = plan(job(time="2h"), GPUS + "limits: {default_time: 90m}\n")
    assert own.directives["time"].value == "02:00:00"


def test_a_job_without_a_time_is_refused_where_the_partition_has_none() -> None:
    assert [code.partition(":")[0] for code in refused(job(time=""))] == ["J116"]


def test_all_problems_are_told_at_once() -> None:
    found = refused(job(nodes="9", gpus_per_node="9", mem="3T"))
    assert found == ["J201:2", "J203:5", "J207:6"]


# ---- launchers


@pytest.mark.parametrize(
    ("keys", "cluster", "launcher"),
    [
        ({}, GPUS, "torchrun"),
        ({"run": "-m pkg.train"}, GPUS, "torchrun"),
        ({"nodes": "1", "gpus_per_node": "1"}, GPUS, "plain"),
        ({"nodes": "1", "gpus_per_node": "1", "run": "nvidia-smi"}, GPUS, "plain"),
        ({"launcher": "none", "run": "./own.sh"}, GPUS, "plain"),
        ({"launcher": "srun"}, GPUS, "srun"),
    ],
)
def test_the_launcher(keys: dict[str, str], cluster: str, launcher: str) -> None:
    assert plan(job(**keys), cluster).launcher.value == launcher


def test_another_command_of_several_ranks_must_name_its_launcher() -> None:
    assert refused(job(run="bash train.sh")) == ["J204:4"]
    assert plan(job(run="bash train.sh", launcher="torchrun")).launcher.value == "torchrun"


@pytest.mark.parametrize("run", ["torchrun train.py", "python -m torch.distributed.run train.py"])
def test_a_launcher_of_its_own_needs_launcher_plain_or_one_rank(run: str) -> None:
    """How many GPUs a node has stands in the profile alone."""
    assert refused(job(run=run, nodes="1")) == ["J306:4"]
    assert refused(job(run=run, nodes="1", launcher="srun")) == ["J306:4"]
    assert plan(job(run=run, nodes="1"), CPUS).launcher.value == "plain"
    assert plan(job(run=run, nodes="1", launcher="plain")).shape.world == 1


def test_a_plain_command_runs_once_on_a_node() -> None:
    found = plan(job(launcher="plain", cpus_per_task="96"))
    assert found.directives["cpus-per-task"].value == "96"
    assert found.other["cpus_per_task"].why == "per node: the command starts its own ranks"
    assert (found.shape.ranks_per_node, found.shape.gpus_per_node, found.shape.world) == (1, 8, 2)
    assert "OMP_NUM_THREADS" not in found.env


def test_what_starts_its_own_ranks_gets_no_threads_of_one_rank() -> None:
    """On one node too, where the CPUs are those of eight ranks that nobody knows of."""
    alone = plan(job(launcher="plain", nodes="1"))
    assert "OMP_NUM_THREADS" not in alone.env
    single = plan(job(nodes="1", gpus_per_node="1"))
    assert single.env["OMP_NUM_THREADS"].value == str(single.shape.cpus_per_task)


def test_more_cpus_than_a_node_has_are_refused_for_its_one_command_too() -> None:
    with pytest.raises(Invalid) as error:
        plan(job(launcher="plain", cpus_per_task="500"))
    (problem,) = error.value.problems
    assert problem.message.startswith("cpus_per_task: 500, but a node of big has 128")


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"nodes": "1", "gpus_per_node": "1", "launcher": "{rdzv: static}"}, "J215"),
        ({"launcher": "{type: plain, args: [-x]}"}, "J215"),
        ({"launcher": "{type: deepspeed, ssh: pdsh}", "env": '{A: "x\\ny"}'}, "J215"),
        ({"launcher": "{type: deepspeed, ssh: pdsh}", "container": "x.sqsh"}, "J216"),
    ],
)
def test_a_setting_that_the_launcher_cannot_follow_is_refused(
    keys: dict[str, str], code: str
) -> None:
    assert [found.partition(":")[0] for found in refused(job(**keys))] == [code]


def test_this_machine_has_no_pdsh_and_no_pyxis() -> None:
    assert refused(job(launcher="{type: deepspeed, ssh: pdsh}"), LOCAL) == ["J215:5"]
    assert refused(job(container="x.sqsh"), LOCAL) == ["J216:5"]


def test_a_launcher_that_follows_from_train_must_be_elastic_too() -> None:
    train = "{strategy: ddp, framework: accelerate}"
    assert refused(job(nodes="2:4", train=train)) == ["J217:2", "J238:2"]


def test_elastic_is_torchruns_c10d_only() -> None:
    found = plan(job(nodes="2:4"))
    assert found.directives["nodes"].value == "2-4"
    assert found.directives["no-kill"].value == ""
    assert "--kill-on-bad-exit=0" in [str(w) for line in found.start for w in line]


# ---- options of sbatch


def test_the_jobs_option_wins_and_says_over_what() -> None:
    cluster = GPUS + "defaults: {slurm: {partition: short, account: lab}}\n"
    found = plan(job(slurm="{partition: long}"), cluster).directives
    assert found["partition"].value == "long"
    assert "short" in found["partition"].why
    assert found["account"].place.file.startswith("cluster big")


def test_a_place_holds_no_folder() -> None:
    found = plan(job(slurm="{partition: long}", env="{A: b}", cpus_per_task="2", mem="1G"))
    settings = (found.directives, found.env, found.other)
    places = {str(decision.place) for group in settings for decision in group.values()}
    assert not any("/" in place for place in places)
    assert "job.yaml:5" in places


@pytest.mark.parametrize(
    ("style", "wanted"),
    [
        ("gpu_request: gres", ("gres", "gpu:8")),
        ("gpu_request: gres-typed\ngpu_type: a100", ("gres", "gpu:a100:8")),
        ("gpu_request: gpus-per-node", ("gpus-per-node", "8")),
        ("gpu_request: none", None),
    ],
)
def test_gpus_are_asked_for_as_the_site_wants(style: str, wanted: tuple[str, str] | None) -> None:
    found = plan(job(), GPUS + style + "\n").directives
    got = [(n, s.value) for n, s in found.items() if n in {"gres", "gpus-per-node"}]
    assert got == ([wanted] if wanted else [])


def test_a_gres_of_the_users_is_joined() -> None:
    found = plan(job(slurm='{gres: "nvme:1"}'), GPUS + "gpu_request: gres\n").directives
    assert found["gres"].value == "gpu:8,nvme:1"
    both = plan(job(slurm='{gres: "nvme:1"}')).directives
    assert (both["gres"].value, both["gpus-per-node"].value) == ("nvme:1", "8")


def test_the_warning_leaves_the_whole_grace_and_room_to_requeue() -> None:
    found = plan(job(checkpoint="{grace: 5m, requeue: true}"))
    assert found.directives["signal"].value == "B:USR1@330"
    assert "requeue" in found.directives
    assert "no-requeue" not in found.directives
    only = plan(job(checkpoint="{grace: 5m, signal: USR2}")).directives
    assert only["signal"].value == "B:USR2@300"
    assert "no-requeue" in only
    assert "signal" not in plan().directives
    assert refused(job(time="5m", checkpoint="{grace: 4m50s, requeue: true}")) == ["J208:5"]


def test_ids_of_other_runs_stand_on_the_command_line_and_in_no_file() -> None:
    text = job(after="[prep, eval]", slurm="{dependency: singleton}")
    found = plan(text, after={"prep": "17", "eval": "18"})
    assert found.submit_options == ("--dependency=afterok:17:18,singleton",)
    assert found.directives["dependency"].value == "singleton"
    unknown = plan(text, after={"prep": "17"})
    assert unknown.submit_options == ("--dependency=afterok:17,singleton",)
    assert [c.code for c in unknown.checks if c.status == "fail"] == ["J209"]


# ---- environment


def test_the_users_value_wins_over_the_networks_and_is_noted() -> None:
    found = plan(job(env="{NCCL_NET: Socket}", nccl="{env: {NCCL_ALGO: Ring}}"))
    assert found.env["NCCL_NET"].value == "Socket"
    assert found.env["NCCL_ALGO"].value == "Ring"
    assert [n.code for n in found.notes] == ["J259", "J212", "J315", "J316"]


def test_one_node_needs_no_network() -> None:
    assert {n for n in plan(job(nodes="1")).env if n.startswith("NCCL")} == {"NCCL_DEBUG"}
    assert not any(n.startswith("NCCL") for n in plan(job(nodes="1", gpus_per_node="1")).env)


def test_nodes_without_gpus_get_nothing_of_nccl() -> None:
    network = "{fabric: infiniband, ib_hca: mlx5_0, socket_ifname: ib0}"
    cluster = CPUS.replace("{fabric: ethernet}", network)
    names = [*plan(job(procs_per_node="2"), cluster).env]
    assert not any(n.startswith("NCCL") for n in names)
    assert "GLOO_SOCKET_IFNAME" in names


def test_later_variables_see_earlier_ones() -> None:
    cluster = GPUS + "defaults: {env: {DATA: /data}}\n"
    names = [*plan(job(env="{SET: $DATA/set, DATA: /other}"), cluster).env]
    assert names.index("SET") < names.index("DATA")


def test_checkpoints_lie_in_the_workdir_unless_a_path_is_named() -> None:
    def where(**keys: str) -> str:
        return plan(job(**keys)).env["JOBGEN_CHECKPOINT_DIR"].value

    assert where() == "$JOBGEN_WORK_DIR/checkpoints"
    assert where(checkpoint="{dir: out/ckpt}") == "$JOBGEN_WORK_DIR/out/ckpt"
    assert where(checkpoint="{dir: out/$RUN}") == "$JOBGEN_WORK_DIR/out/$RUN"
    assert where(checkpoint="{dir: /scratch/$USER}") == "/scratch/$USER"


# ---- the program and its facts


def checked(run: str, *files: str) -> list[tuple[str, str]]:
    """(status, message and place) of each check of a program, with these files in the workdir."""
    checks = plan(job(run=run, launcher="torchrun"), workdir_files=frozenset(files)).checks
    return [
        (c.status, f"{c.message} {c.place or ''}".strip())
        for c in checks
        if c.code == "J220" or "in the job's folder" in c.message
    ]


def test_the_program_is_looked_for_among_the_files() -> None:
    assert checked("train.py", "train.py") == [("ok", "train.py is in the job's folder")]
    missing = plan(job(run="other.py"), workdir_files=frozenset({"src/other.py"})).checks
    (found,) = [c for c in missing if c.code == "J220"]
    assert (found.status, found.hint) == ("fail", "did you mean src/other.py?")
    missing = plan(job(run="trian.py"), workdir_files=frozenset({"train.py", "train.txt"})).checks
    assert [c.hint for c in missing if c.code == "J220"] == ["did you mean train.py?"]


@pytest.mark.parametrize(
    ("run", "path"),
    [
        ("python trian.py", "trian.py"),
        ("python -W ignore trian.py", "trian.py"),
        ("python -X dev -u trian.py --lr 1", "trian.py"),
        ("A=1 numactl -N 0 python3 trian.py", "trian.py"),
        ("uv run trian.py", "trian.py"),
        ("time ./trian.py", "trian.py"),
        ("bash -c 'exec python trian.py'", "trian.py"),
        ("|\n  export A=1\n  module load cuda\n  python trian.py", "trian.py"),
        ("cd src && python trian.py", "src/trian.py"),
    ],
)
def test_a_missing_program_is_found_wherever_it_stands(run: str, path: str) -> None:
    ((status, message),) = checked(run, "train.py", "src/train.py")
    assert status == "fail"
    assert message.startswith(f"{path} is not in the job's folder some/where/job.yaml:")


def test_a_launcher_that_jobs_here_do_not_find_is_a_warning_without_a_setup() -> None:
    def warned(text: str, cluster: str = LOCAL) -> list[str]:
        checks = plan(text, cluster, missing_launchers=frozenset({"torchrun"})).checks
        return [check.message for check in checks if check.code == "J437"]

    (message,) = warned(job(run="train.py", launcher="torchrun"))
    assert message == "torchrun is not on PATH here, and the job has no setup"
    assert warned(job(run="train.py", launcher="torchrun", setup="source env.sh")) == []
    assert warned(job(run="train.py", launcher="accelerate")) == []
    setup = f"{LOCAL}defaults: {{setup: module load torch}}\n"
    assert warned(job(run="train.py", launcher="torchrun"), setup) == []


def test_the_line_of_a_missing_program_is_named() -> None:
    ((_, message),) = checked("|\n  set -e\n  python trian.py", "train.py")
    assert message.endswith("some/where/job.yaml:6")


@pytest.mark.parametrize(
    "run",
    [
        "$DIR/x.py",
        "python /shared/x.py",
        "-m pkg.x",
        "if [ -f x.py ]; then python x.py; fi",
        "cd $DIR && python x.py",
        "(cd sub; make) && python x.py",
        "apptainer exec image.sif python x.py",
    ],
)
def test_a_program_that_may_lie_elsewhere_is_not_looked_for(run: str) -> None:
    assert checked(run, "train.py") == []


def test_a_program_that_an_earlier_command_may_make_is_a_warning() -> None:
    ((status, _),) = checked("git clone https://example.org/x . && python x.py", "train.py")
    assert status == "warn"


def test_a_secret_that_is_not_there_fails_a_check() -> None:
    text = job(secrets="[HF_TOKEN, OTHER]")
    found = plan(text, secrets={"HF_TOKEN": "environment"}).checks
    assert [(c.status, c.code) for c in found if "HF_TOKEN" in c.message] == [("ok", "J000")]
    assert [(c.status, c.code) for c in found if "OTHER" in c.message] == [("fail", "J221")]


def test_facts_change_no_byte_of_the_plan_that_is_rendered() -> None:
    def rendered(found: Plan) -> object:
        from jobgen.render.data import dump_plan

        return dump_plan(found)

    text = job(secrets="[A]", after="[prep]")
    known = plan(text, after={"prep": "7"}, secrets={"A": "environment"}, workdir_files=frozenset())
    assert rendered(known) == rendered(plan(text))


# ---- containers


def test_an_image_is_named_as_its_runtime_writes_it() -> None:
    from jobgen.resolve import container_image

    assert container_image.format_image("ubuntu:24.04", "pyxis") == "ubuntu:24.04"
    assert container_image.format_image("docker://ghcr.io/a/b", "pyxis") == "ghcr.io#a/b"
    assert container_image.format_image("docker://ghcr.io/a/b", "docker") == "ghcr.io/a/b"
    assert container_image.format_image("oras://ghcr.io/a/b", "apptainer") == "oras://ghcr.io/a/b"
    assert container_image.format_image("$SCRATCH/a.sif", "apptainer") == "$SCRATCH/a.sif"


def test_the_sites_setup_runs_outside_of_a_container() -> None:
    cluster = GPUS + 'defaults: {setup: "module load x"}\n'
    boxed = job(container="{image: a.sif, runtime: apptainer}", setup="'export A=1'")
    found = plan(boxed, cluster)
    assert [s.value for s in found.setup] == ["export A=1"]
    assert found.container
    assert [s.value for s in found.container.setup] == ["module load x"]
    pyxis = plan(job(container="a.sqsh"), cluster)
    assert pyxis.container
    assert pyxis.container.setup == ()
    assert [n.code for n in pyxis.notes] == ["J218"]
    assert [s.value for s in plan(job(), cluster).site_setup] == ["module load x"]


def test_an_image_that_every_node_would_import_is_said_with_the_command() -> None:
    name = "nvcr.io/nvidia/pytorch:25.09-py3"
    (note,) = plan(job(container=name)).notes
    assert (note.code, note.severity) == ("J219", "note")
    assert "enroot import -o FILE.sqsh 'docker://nvcr.io#nvidia/pytorch:25.09-py3'" in note.hint
    assert plan(job(container=name, nodes="1")).notes == ()
    for image in ("/shared/a.sqsh", "$SCRATCH/a.sqsh", "a.sqsh"):
        assert plan(job(container=image)).notes == ()
    assert plan(job(container=f"{{image: '{name}', runtime: docker}}")).notes == ()


def test_docker_takes_part_of_a_node_only_where_slurm_assigns_gpus() -> None:
    boxed = job(container="{image: img, runtime: docker}", gpus_per_node="2")
    cluster = GPUS + "gpu_request: none\n"
    assert refused(boxed, cluster) == ["J216:6"]
    assert plan(boxed, GPUS)
    assert plan(job(container="{image: img, runtime: docker}"), cluster)
    assert plan(job(container="{image: a.sif, runtime: apptainer}", gpus_per_node="2"), cluster)


def test_two_parts_that_contradict_each_other_are_named() -> None:
    cluster = GPUS.replace(
        "{fabric: infiniband}", "{fabric: infiniband, env: {MELLANOX_VISIBLE_DEVICES: '0'}}"
    )
    with pytest.raises(Invalid, match=r"network infiniband sets 0, container sets all"):
        plan(job(container="a.sqsh"), cluster)
    settled = plan(job(container="a.sqsh", env="{OTHER: x}"), GPUS)
    assert settled.env["MELLANOX_VISIBLE_DEVICES"].value == "all"


@pytest.mark.parametrize(
    ("keys", "cluster", "noted"),
    [
        ({}, GPUS, True),
        ({"launcher": "deepspeed"}, GPUS, True),
        ({}, LOCAL, False),
        ({"launcher": "srun"}, GPUS, False),
        ({"gpus_per_node": "1", "nodes": "1"}, GPUS, False),
        ({"setup": "source env/bin/activate"}, GPUS, False),
        ({"container": "{image: /a.sqsh, runtime: pyxis}"}, GPUS, False),
        ({"env": "{PATH: $HOME/env/bin:$PATH}"}, GPUS, False),
        ({}, GPUS + "defaults: {setup: module load torch}\n", False),
    ],
)
def test_a_launcher_that_nothing_brings_to_the_nodes_is_noted(
    keys: dict[str, str], cluster: str, noted: bool
) -> None:
    notes = [note for note in plan(job(**keys), cluster).notes if note.code == "J259"]
    assert [note.severity for note in notes] == ["note"] * noted
    if noted:
        launcher = keys.get("launcher", "torchrun")
        words = f"setup is not set: {launcher} must be on PATH on the nodes of big"
        assert notes[0].message == words


def test_a_job_that_asks_for_mail_on_this_machine_is_told_that_none_is_sent() -> None:
    text = job(launcher="plain", nodes="1", notify="{mail: ann@example.org}")
    why = plan(text, LOCAL).other["notify"].why
    assert why == "on end; no mail: there is no Slurm on this machine"
    assert "no mail" not in plan(text).other["notify"].why
