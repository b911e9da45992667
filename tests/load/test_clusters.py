"""cluster.yaml: facts, what is refused on purpose, and profiles that extend others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobgen.catalog import Catalog, Parent
from jobgen.errors import Diagnostic, Invalid, Place
from jobgen.load import check, load_cluster
from jobgen.model.cluster import ClusterProfile
from jobgen.model.loaded import Loaded
from jobgen.model.units import Release
from jobgen.source import scan

BASE = {
    "name": "c1",
    "scheduler": "slurm",
    "ssh": "{host: login.example.org}",
    "paths": "{root: /scratch/$USER/jobgen}",
    "nodes": "{count: 2, gpus_per_node: 8, gpu: A100-SXM4-80GB}",
    "network": "{fabric: infiniband}",
}


def text(more: str = "", **changed: str) -> str:
    return "".join(f"{k}: {v}\n" for k, v in (BASE | changed).items() if v) + more


def load(
    more: str = "", parent: tuple[str, str] | None = None, **changed: str
) -> Loaded[ClusterProfile]:
    return load_cluster(text(more, **changed), "c1.yaml", parent=parent)


def problem(more: str = "", **changed: str) -> Diagnostic:
    with pytest.raises(Invalid) as caught:
        load(more, **changed)
    (one,) = caught.value.problems
    return one


SHIPPED = {file.name: file for file in Catalog((), Path()).list_clusters()}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_profile_is_valid_and_named_like_its_file(name: str) -> None:
    file = SHIPPED[name]
    found = check(file.text, file.label, parent=file.parent)
    assert (found.kind, found.valid) == ("cluster", True)
    assert found.problems == ()
    profile = load_cluster(file.text, file.label, parent=file.parent).value
    assert profile.name == file.path.stem
    assert (profile.docs or "").startswith(("https://", "docs/"))


@pytest.mark.parametrize("name", [n for n, f in SHIPPED.items() if "\nextends:" in f.text])
def test_a_shipped_variant_says_only_what_differs(name: str) -> None:
    file = SHIPPED[name]
    assert file.parent is not None
    ours, theirs = scan(file.text, file.label).data, scan(*file.parent[:2]).data
    same = [key for key in repeated(ours, theirs) if key != ("scheduler",)]
    assert same == []


def repeated(ours: Any, theirs: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of values that stand in both."""
    for key in ours.keys() & theirs.keys():
        if isinstance(ours[key], dict) and isinstance(theirs[key], dict):
            yield from repeated(ours[key], theirs[key], (*path, key))
        elif ours[key] == theirs[key]:
            yield (*path, key)


@pytest.mark.parametrize(
    ("ssh", "code"),
    [
        ("{host: h, forward_agent: true}", "J170"),
        ("{host: h, ForwardAgent: yes}", "J170"),
        ("{host: h, strict_host_key_checking: no}", "J170"),
        ("{host: h, StrictHostKeyChecking: no}", "J170"),
        ("{host: h, known_hosts: /dev/null}", "J170"),
        ("{host: h, UserKnownHostsFile: /dev/null}", "J170"),
        ("{host: h, proxy_command: id}", "J170"),
        ("{host: h, password: x}", "J170"),
        ("{host: -oProxyCommand=id}", "J171"),
        ("{host: 'a b'}", "J171"),
        ("{host: 'a;id'}", "J171"),
        ("{host: '$(id)'}", "J171"),
        ("{host: a@b}", "J171"),
        ("{host: h, user: -x}", "J171"),
        ("{host: h, user: 'a;id'}", "J171"),
        ("{host: h, port: 99999}", "J122"),
        ("{host: h, port: 0}", "J122"),
        ("{host: h, port: '22'}", "J121"),
        ("{host: h, auth: [gssapi]}", "J123"),
        ("{host: h, backend: asyncssh}", "J123"),
        ("{host: h, fingerprint: 'MD5:a'}", "J173"),
        ("{host: h, key_file: ~/.ssh/id}", "J102"),
        ("{user: a}", "J116"),
    ],
)
def test_a_profile_can_neither_weaken_ssh_nor_pass_options_to_it(ssh: str, code: str) -> None:
    assert problem(ssh=ssh).code == code


@pytest.mark.parametrize("host", ["hpc", "login.example.org", "10.0.0.1", "fe80::1", "login-1_a"])
def test_a_host_is_a_name_or_an_address(host: str) -> None:
    ssh = load(ssh=f"{{host: '{host}'}}").value.ssh
    assert ssh is not None
    assert ssh.host == host


@pytest.mark.parametrize(
    "root", ["relative", "/a/../b", "~/x", "/a/$(id)", "/a/`id`", "'/a/${USER}'", '"/a\\nb"']
)
def test_the_root_is_an_absolute_path(root: str) -> None:
    assert problem(paths=f"{{root: {root}}}").code in {"J135", "J161", "J127"}


@pytest.mark.parametrize("root", ["/scratch/$USER/x", "$SCRATCH/jobgen", "/a b/c", "/x"])
def test_variables_of_the_cluster_may_stand_in_the_root(root: str) -> None:
    assert load(paths=f"{{root: {root}}}").value.paths.root == root


def test_an_unknown_gpu_is_told_the_nearest_or_its_family() -> None:
    assert (
        "A100-SXM4-80GB" in problem(nodes="{count: 1, gpus_per_node: 8, gpu: A100-SMX4-80GB}").hint
    )
    assert "A100-PCIE-40GB" in problem(nodes="{count: 1, gpus_per_node: 8, gpu: A100}").hint


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"nodes": ""}, "J116"),
        ({"nodes": "2"}, "J120"),
        ({"nodes": "{count: 0}"}, "J122"),
        ({"nodes": "{count: 2, gpus_per_node: 8}"}, "J116"),
        ({"nodes": "{count: 2, gpu: A100-SXM4-80GB}"}, "J138"),
        ({"nodes": "{count: 2, mem: 512}"}, "J134"),
        ({"network": ""}, "J116"),
        ({"network": "infinband"}, "J123"),
        ({"versions": "{nccl: 22105}"}, "J183"),
        ({"network": "{fabric: roce, gid_index: 256}"}, "J122"),
        ({"network": "{fabric: efa, ib_hca: mlx5_0}"}, "J138"),
        ({"network": "{fabric: ethernet, socket_ifname: 'eth0 eth1'}"}, "J178"),
        ({"network": "{fabric: ethernet, env: {RANK: 1}}"}, "J126"),
        ({"scheduler": "local"}, "J138"),
        ({"gpu_request": "gres-typed"}, "J116"),
        ({"slurm_version": "22"}, "J179"),
        ({"limits": "{nodes: 3}"}, "J138"),
        ({"limits": "{time: 24}"}, "J131"),
        ({"price": "{currency: EUR}"}, "J116"),
        ({"price": "{gpu_hour: -1}"}, "J122"),
        ({"defaults": "{slurm: {nodes: 2}}"}, "J141"),
        ({"defaults": "{slurm: {account: $USER}}"}, "J145"),
        ({"defaults": "{env: {A: '${HOME}'}}"}, "J161"),
        ({"defaults": "{env: {HF_TOKEN: abc}}"}, "J150"),
        ({"defaults": "{container: {runtime: docker}}"}, "J116"),
    ],
)
def test_a_wrong_fact_is_refused(changed: dict[str, str], code: str) -> None:
    assert problem(**changed).code == code


def test_all_problems_of_a_profile_come_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        load("limit: 1\n", ssh="{host: h, port: 0, x11: true}", network="{fabric: infinband}")
    assert [p.code for p in caught.value.problems] == ["J122", "J170", "J123", "J102"]


PARENT = text(
    "defaults: {slurm: {partition: gpu, account: nlp}, setup: module load cuda}\n", name="big"
)


def child(more: str) -> Loaded[ClusterProfile]:
    return load_cluster(
        f"name: mine\nextends: big\n{more}", "mine.yaml", parent=(PARENT, "big.yaml")
    )


def test_a_profile_completes_itself_from_another_key_by_key() -> None:
    loaded = child("nodes: {count: 1}\ndefaults: {slurm: {account: bio}}\n")
    assert loaded.value.name == "mine"
    assert (loaded.value.nodes.count, loaded.value.nodes.gpus_per_node) == (1, 8)
    assert dict(loaded.value.defaults.slurm) == {"partition": "gpu", "account": "bio"}
    assert loaded.value.defaults.setup == ("module load cuda",)


def test_every_value_tells_the_file_it_came_from() -> None:
    loaded = child("nodes: {count: 1}\n")
    assert str(loaded.cite("nodes", "count")) == "mine.yaml:3"
    assert str(loaded.cite("nodes", "gpu")) == "big.yaml:5"
    assert str(loaded.cite("defaults", "slurm", "partition")) == "big.yaml:7"
    assert loaded.find_place("ssh", "host") == Place("big.yaml", 3, 7, 11)


def test_a_problem_in_the_parent_points_there() -> None:
    with pytest.raises(Invalid) as caught:
        load_cluster(
            "name: m\nextends: big\n", "m.yaml", parent=(text(network="infinband"), "big.yaml")
        )
    (one,) = caught.value.problems
    assert one.place
    assert (one.place.file, one.place.line) == ("big.yaml", 6)


def test_a_parent_may_have_a_parent_and_each_value_tells_its_file() -> None:
    middle = "name: mid\nextends: big\nnodes: {cpus: 64}\nprocs_per_node: 3\n"
    above = Parent(middle, "mid.yaml", Parent(PARENT, "big.yaml"))
    loaded = load_cluster("name: m\nextends: mid\nnodes: {count: 1}\n", "m.yaml", parent=above)
    assert (loaded.value.nodes.count, loaded.value.nodes.cpus) == (1, 64)
    assert str(loaded.cite("nodes", "count")) == "m.yaml:3"
    assert str(loaded.cite("nodes", "cpus")) == "mid.yaml:3"
    assert str(loaded.cite("procs_per_node")) == "mid.yaml:4"
    assert str(loaded.cite("nodes", "gpu")) == "big.yaml:5"
    assert str(loaded.cite("defaults", "slurm", "partition")) == "big.yaml:7"


def test_the_parent_must_be_there_and_its_parent_too() -> None:
    assert problem(extends="nowhere").code == "J177"
    with pytest.raises(Invalid) as caught:
        load_cluster("name: m\nextends: b\n", "m.yaml", parent=(text(extends="c"), "b.yaml"))
    assert [p.code for p in caught.value.problems] == ["J177"]


def test_a_child_has_a_name_of_its_own() -> None:
    with pytest.raises(Invalid) as caught:
        load_cluster("extends: big\n", "m.yaml", parent=(PARENT, "big.yaml"))
    assert [p.message for p in caught.value.problems] == ["name is missing"]


def test_a_missing_name_is_that_of_the_file() -> None:
    with pytest.raises(Invalid) as caught:
        load_cluster("scheduler: slurm\n", "/a/clusters/ws.yaml")
    (missing,) = [found for found in caught.value.problems if "name is missing" in found.message]
    assert missing.hint == "add name: ws"


@pytest.mark.parametrize("folder", ["clusters/", "~/.config/jobgen/clusters/", "/a/clusters/"])
def test_a_profile_among_the_clusters_is_called_as_its_file(folder: str) -> None:
    """What -c finds by the file's name stands in ls and in the ledger by the other."""
    (found,) = check(text(), f"{folder}mine.yaml").problems
    assert (found.code, found.severity) == ("J174", "error")
    assert found.place == Place(f"{folder}mine.yaml", 1, 7, 9)
    assert "mine.yaml" in found.message
    assert found.hint == "set name: mine, or rename the file to c1.yaml"
    assert check(text(), f"{folder}c1.yaml").problems == ()


def test_a_profile_that_is_named_by_its_path_may_be_called_anything() -> None:
    assert check(text(), "site/today.yaml").problems == ()


def test_releases_are_compared_as_releases() -> None:
    versions = load(versions="{nccl: 2.20, torch: 2.4.0+cu121}").value.versions
    assert versions.nccl == Release((2, 20))
    assert versions.torch == Release((2, 4))
    assert versions.cuda is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("versions: {nccl: 2.20.5}\n", []),
        ("versions: {nccl: 2.17, ofi_nccl: 1.7.4, cuda: 11.8}\n", ["nccl", "cuda"]),
        ("versions: {nccl: 2.27.7, ofi_nccl: 1.16, cuda: 12.8}\n", []),
        ("versions: {nccl: nonsense}\n", []),
    ],
)
def test_a_release_that_is_too_old_for_the_machine_is_said(more: str, said: list[str]) -> None:
    file = SHIPPED["aws-p5"]
    found = [p for p in check(file.text + more, "p.yaml").problems if p.code == "J185"]
    assert [p.message.partition(" ")[0].partition(".")[2] for p in found] == said
    a100 = check(SHIPPED["aws-p4d"].text + "versions: {cuda: 11.8, nccl: 2.12}\n", "p.yaml")
    assert a100.problems == ()


def test_a_variable_of_the_network_may_say_why_and_from_where() -> None:
    env = "{A: 1, B: {value: 2, why: because, source: https://example.org}}"
    network = load(network=f"{{fabric: infiniband, env: {env}}}").value.network
    said = {name: (one.value, one.why, one.source) for name, one in network.env.items()}
    assert said == {"A": ("1", "", ""), "B": ("2", "because", "https://example.org")}


@pytest.mark.parametrize("entry", ["{why: because}", "[1]", "{value: [1]}", "{value: 1, y: 2}"])
def test_a_variable_of_the_network_needs_a_value(entry: str) -> None:
    with pytest.raises(Invalid):
        load(network=f"{{fabric: infiniband, env: {{A: {entry}}}}}")


def test_a_secret_is_found_in_both_forms_of_a_variable() -> None:
    for entry in ("hf_abcdefgh", "{value: hf_abcdefgh}"):
        found = problem(network=f"{{fabric: infiniband, env: {{HF_TOKEN: {entry}}}}}")
        assert found.code == "J150"
        assert "abcdefgh" not in str(found)


@pytest.mark.parametrize(
    ("changed", "codes"),
    [
        ({"network": "{fabric: infinband, ib_hca: mlx5_0}"}, ["J123"]),
        ({"network": "{type: roce, ib_hca: mlx5_0}"}, ["J102"]),
        ({"nodes": "{count: 1, gpus: 8, gpu: A100-SXM4-80GB}"}, ["J102"]),
        ({"nodes": "{count: 1, gpus: 2, gpu: A100-SXM4-80GB, gpu_cpus: [0-1, 2-3]}"}, ["J102"]),
        ({"nodes": "{count: 1, gpus_per_node: x, gpu: A100-SXM4-80GB}"}, ["J121"]),
        ({"nodes": "{count: 1, gpus_per_node: 8, gpu_type: A100-SXM4-80GB}"}, ["J102"]),
        ({"nodes": "{count: two, gpus_per_node: 0}", "network": ""}, ["J121"]),
    ],
)
def test_a_refused_key_is_refused_alone(changed: dict[str, str], codes: list[str]) -> None:
    with pytest.raises(Invalid) as caught:
        load(**changed)
    assert [p.code for p in caught.value.problems] == codes
