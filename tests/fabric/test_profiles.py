"""The shipped profiles: what each renders is known, right for its releases, and has a reason."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from jobgen.catalog import Catalog
from jobgen.data.env_variables import release, variable
from jobgen.fabric.variables import judge
from jobgen.fabric.variables.profile_context import build_context
from jobgen.load import load_cluster, load_job
from jobgen.model.facts import Facts
from jobgen.model.network import FABRICS
from jobgen.model.plan import Plan
from jobgen.resolve import resolve
from jobgen.shell import list_names

CLUSTERS = {file.name: file for file in Catalog((), Path()).list_clusters() if file.name != "local"}
RELEASES = {
    "unknown": "",
    "old": "{nccl: 2.18.6, driver: 535.54.3, ofi_nccl: 1.5.0, libfabric: 1.17}",
    "current": "{nccl: 2.30.7, driver: 580.95.5, ofi_nccl: 1.16.0, libfabric: 2.1}",
}
UNMEASURED = "the site's own setting"
AROUND = {"JOBGEN_CHECKPOINT_DIR", "JOBGEN_GPU_CPUS"}
"""Of jobgen's own."""

profiles = pytest.mark.parametrize("name", CLUSTERS)
releases = pytest.mark.parametrize("known", RELEASES)


@cache
def planned(name: str, known: str = "unknown", container: str = "") -> Plan:
    """The plan of the smallest job on two nodes, or on the one that there is."""
    file = CLUSTERS[name]
    text = file.text + (f"versions: {RELEASES[known]}\n" if RELEASES[known] else "")
    cluster = load_cluster(text, file.label, parent=file.parent)
    nodes = min(2, cluster.value.nodes.count)
    job = f"name: j\nnodes: {nodes}\ntime: 1h\nrun: train.py\n"
    job += f"container: {{image: /img.sqsh, runtime: {container}}}\n" if container else ""
    return resolve(load_job(job, "job.yaml"), cluster, Facts())


def known_values(plan: Plan) -> dict[str, str | None]:
    """Name → value of every variable; None where only the run knows it."""
    return {name: None if list_names(one.value) else one.value for name, one in plan.env.items()}


@profiles
@releases
def test_every_variable_is_one_that_its_release_reads(name: str, known: str) -> None:
    installed = {"unknown": (), "old": (2, 18, 6), "current": (2, 30, 7)}[known]
    for one in planned(name, known).env.keys() - AROUND:
        row = variable(one)
        assert row is not None, f"{one} is not in the catalogue"
        if row.owner == "nccl" and installed:
            assert (release(row.since) or (0,)) <= installed, f"{one} is not known yet"
            assert not row.until or installed <= release(row.until), f"{one} is gone"


@profiles
@releases
def test_every_variable_has_a_reason_and_a_line_that_gives_it(name: str, known: str) -> None:
    for one, setting in planned(name, known).env.items():
        assert setting.why, one
        assert not setting.why.startswith(UNMEASURED), one
        assert setting.place.kind == "rule" or setting.place.file.startswith("cluster "), one


@profiles
@releases
def test_the_judge_of_variables_has_nothing_to_say(name: str, known: str) -> None:
    file = CLUSTERS[name]
    text = file.text + (f"versions: {RELEASES[known]}\n" if RELEASES[known] else "")
    cluster = load_cluster(text, file.label, parent=file.parent).value
    plan = planned(name, known)
    codes = {note.code for note in plan.notes} - {"J259"}  # nothing brings torchrun
    assert codes <= ({"J185"} if known == "old" else set())
    others = known_values(plan)
    context = build_context(cluster, nodes=plan.shape.nodes)._replace(kind="cluster", others=others)
    found = {name: judge(name, value, context) for name, value in others.items()}
    assert {o: said for o, said in found.items() if said} == {}


@profiles
@releases
def test_a_job_may_set_what_jobgen_sets(name: str, known: str) -> None:
    file = CLUSTERS[name]
    text = file.text + (f"versions: {RELEASES[known]}\n" if RELEASES[known] else "")
    cluster = load_cluster(text, file.label, parent=file.parent).value
    plan = planned(name, known)
    others = known_values(plan)
    context = build_context(cluster, nodes=plan.shape.nodes, others=others)
    found = {name: judge(name, value, context) for name, value in others.items()}
    assert {o: said for o, said in found.items() if said} == {}


@profiles
def test_a_variable_of_the_profile_itself_names_its_source(name: str) -> None:
    file = CLUSTERS[name]
    network = load_cluster(file.text, file.label, parent=file.parent).value.network
    for one, entry in network.env.items():
        assert entry.why, one
        assert entry.source, one


@profiles
def test_a_job_that_stays_on_one_node_has_no_variable_of_the_network(name: str) -> None:
    file = CLUSTERS[name]
    cluster = load_cluster(file.text, file.label, parent=file.parent)
    job = "name: j\nnodes: 1\ntime: 1h\nrun: train.py\n"
    plan = resolve(load_job(job, "job.yaml"), cluster, Facts())
    usual = {
        "JOBGEN_GPU_CPUS",
        "OMP_NUM_THREADS",
        "NCCL_DEBUG",
        "JOBGEN_CHECKPOINT_DIR",
        "NCCL_P2P_DISABLE",
    }
    traces = {"PYTHONFAULTHANDLER", "TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}
    assert plan.env.keys() <= usual | traces
    assert plan.site_setup == ()


@pytest.mark.parametrize("runtime", ["pyxis", "apptainer", "docker"])
@profiles
def test_a_container_sees_what_its_variables_name(name: str, runtime: str) -> None:
    plan = planned(name, container=runtime)
    started = "\n".join(str(word) for line in plan.start for word in line)
    inside = plan.container
    assert inside is not None
    started += "\n".join(str(word) for line in inside.enter for word in line)
    targets = [mount.target for mount in inside.mounts]
    for setting in plan.env.values():
        if setting.value.startswith(("/opt/", "/var/", "/dev/", "/run/")):
            assert any(setting.value.startswith(target) for target in targets), setting.value
    for target in targets:
        assert target.split("$")[0] in started
    if runtime == "pyxis":
        named = next(w for w in started.split() if w.startswith("--container-env="))
        assert plan.env.keys() <= {*named.partition("=")[2].split(",")}


def test_every_network_has_a_profile() -> None:
    there = {
        load_cluster(f.text, f.label, parent=f.parent).value.network.fabric
        for f in CLUSTERS.values()
    }
    assert there == {*FABRICS} - {"unknown"}


@pytest.mark.parametrize(
    ("name", "runtime", "words"),
    [
        ("lumi-g", "apptainer", {"--rocm"}),
        ("oci-mi300x", "docker", {"--device=/dev/kfd", "--device=/dev/dri", "--group-add=video"}),
        ("dgx-h100", "apptainer", {"--nv"}),
        ("dgx-h100", "docker", {"--gpus=all"}),
    ],
)
def test_a_container_is_given_the_gpus_of_their_maker(
    name: str, runtime: str, words: set[str]
) -> None:
    inside = planned(name, container=runtime).container
    assert inside is not None
    said = {str(word) for line in inside.enter for word in line}
    every = {"--rocm", "--nv", "--gpus=all", "--device=/dev/kfd", "--device=/dev/dri"}
    assert words <= said
    assert not said & (every - words)
