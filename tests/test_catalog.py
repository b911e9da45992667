"""Where profiles are found: nearest first, and what hides what."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobgen.catalog import Catalog, find_shipped
from jobgen.errors import Invalid, Missing
from jobgen.load import check, load_cluster, load_job
from jobgen.model.facts import Facts
from jobgen.resolve import resolve

PROFILE = "name: {0}\nscheduler: local\npaths: {{root: /{1}}}\nnodes: {{count: 1}}\n"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path, Path]:
    made = (tmp_path / "job", tmp_path / "here", tmp_path / "config")
    for folder in made:
        (folder / "clusters").mkdir(parents=True)
    return made


def put(folder: Path, name: str, text: str = "") -> Path:
    path = folder / "clusters" / f"{name}.yaml"
    path.write_text(text or PROFILE.format(name, folder.name))
    return path


def catalog(folders: tuple[Path, Path, Path]) -> Catalog:
    beside, here, config = folders
    return Catalog.standard(cwd=here, config=config, beside=beside)


def test_the_users_own_profile_wins_and_tells_what_it_hides(
    folders: tuple[Path, Path, Path],
) -> None:
    for folder in folders:
        put(folder, "mine")
    found = catalog(folders).find_cluster("mine")
    assert (found.origin, found.of_project) == ("your own", False)
    assert "root: /config" in found.text
    assert found.shadows == (
        ("beside the job", str(folders[0] / "clusters/mine.yaml")),
        ("here", "clusters/mine.yaml"),
    )


def test_the_order_is_own_job_here_shipped(folders: tuple[Path, Path, Path]) -> None:
    beside, here, config = folders
    for folder, origin in ((here, "here"), (beside, "beside the job"), (config, "your own")):
        put(folder, "local")
        assert catalog(folders).find_cluster("local").origin == origin


def test_a_copy_of_a_shipped_profile_is_the_shipped_one(folders: tuple[Path, Path, Path]) -> None:
    for folder in folders:
        put(folder, "local", (find_shipped("clusters") / "local.yaml").read_text())
    found = catalog(folders).find_cluster("local")
    assert (found.origin, found.shadows, found.of_project) == ("shipped", (), False)
    put(folders[1], "local", found.text + "\n")
    assert catalog(folders).find_cluster("local").of_project


def test_no_profile_of_the_users_own_extends_one_of_a_project(
    folders: tuple[Path, Path, Path],
) -> None:
    put(folders[2], "mine", "name: mine\nextends: base\n")
    put(folders[1], "base")
    found = catalog(folders).find_cluster("mine")
    assert found.parent is None
    put(folders[2], "base")
    parent = catalog(folders).find_cluster("mine").parent
    assert parent is not None
    assert "root: /config" in parent.text


def test_an_own_profile_that_is_a_link_extends_no_profile_of_a_project(
    folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "dotfiles.yaml").write_text("name: mine\nextends: a100x16\n")
    (folders[2] / "clusters" / "mine.yaml").symlink_to(tmp_path / "dotfiles.yaml")
    put(folders[1], "a100x16")
    found = catalog(folders).find_cluster("mine")
    assert [*found.texts][1:] == ["clusters/a100x16.yaml"]
    assert "scheduler: local" not in found.texts["clusters/a100x16.yaml"]


def test_a_file_of_a_project_that_is_a_link_out_of_it_is_not_read(
    folders: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("key")
    (folders[1] / "clusters" / "evil.yaml").symlink_to(tmp_path / "secret")
    with pytest.raises(Missing):
        catalog(folders).find_cluster("evil")
    (folders[1] / "templates" / "slurm").mkdir(parents=True)
    (folders[1] / "templates" / "slurm" / "x.j2").symlink_to(tmp_path / "secret")
    with pytest.raises(Invalid, match="leads out"):
        catalog(folders).list_overrides({})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a folder to somebody else")
def test_templates_of_somebody_else_where_one_happens_to_stand_are_not_used(
    folders: tuple[Path, Path, Path],
) -> None:
    templates = folders[1] / "templates"
    (templates / "slurm").mkdir(parents=True)
    (templates / "slurm" / "x.j2").write_text("echo")
    assert catalog(folders).list_overrides({})
    os.chown(templates, 64042, 64042)
    assert not catalog(folders).list_overrides({})


def test_a_path_to_a_profile_of_the_users_own_is_no_projects(
    folders: tuple[Path, Path, Path],
) -> None:
    assert not catalog(folders).find_cluster(str(put(folders[2], "mine"))).of_project
    assert catalog(folders).find_cluster(str(put(folders[0], "mine"))).of_project


def test_a_shipped_profile_needs_nothing() -> None:
    found = Catalog(()).find_cluster("local")
    assert (found.origin, found.label) == ("shipped", "clusters/local.yaml")


def test_a_word_with_a_slash_or_a_suffix_is_a_file(folders: tuple[Path, Path, Path]) -> None:
    put(folders[1], "mine")
    (folders[1] / "x.yaml").write_text(PROFILE.format("x", "x"))
    assert catalog(folders).find_cluster("./clusters/mine.yaml").origin == "file"
    assert catalog(folders).find_cluster("x.yaml").name == "x"
    with pytest.raises(Missing):
        catalog(folders).find_cluster("./nowhere.yaml")


ADD_ONE = "jobgen cluster add qqqqqq --from LOGIN-HOST"
ALIKE = "all like it: jobgen cluster ls"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("locla", "did you mean local? all: jobgen cluster ls --all"),
        ("a100x61", "did you mean a100x16? all: jobgen cluster ls --all"),
        (
            "h100",
            "did you mean dgx-h100, oci-h100 or azure-nd-h100? all like it: jobgen cluster ls h100",
        ),
        ("google", f"did you mean gcp-a3-high, gcp-a3-mega or gcp-a2-ultra? {ALIKE} google"),
        ("amazon h100", "did you mean aws-p5? all: jobgen cluster ls --all"),
        ("RTX-4090-24GB", "did you mean rtx4090? all: jobgen cluster ls --all"),
        (
            "qqqqqq",
            f"describe it once: {ADD_ONE}; all: jobgen cluster ls --all",
        ),
    ],
)
def test_an_unknown_name_gets_the_nearest_and_the_command_that_lists(name: str, hint: str) -> None:
    with pytest.raises(Missing) as caught:
        Catalog(()).find_cluster(name)
    (problem,) = caught.value.problems
    assert problem.hint == hint
    assert caught.value.exit == 7


def test_an_unknown_name_gets_the_users_own_profiles_if_none_is_near(
    folders: tuple[Path, Path, Path],
) -> None:
    with pytest.raises(Missing) as caught:
        catalog(folders).find_cluster("qqqqqq")
    here = "describe it once: jobgen cluster add qqqqqq --from LOGIN-HOST"
    assert caught.value.problems[0].hint == f"{here}; all: jobgen cluster ls --all"
    for name in ("lab", "one", "two", "zoo"):
        put(folders[1], name)
    with pytest.raises(Missing) as caught:
        catalog(folders).find_cluster("qqqqqq")
    hint = f"{here}; yours: lab, one, two; all: jobgen cluster ls --all"
    assert caught.value.problems[0].hint == hint


def test_all_profiles_are_listed_once(folders: tuple[Path, Path, Path]) -> None:
    put(folders[0], "local")
    put(folders[2], "zeus")
    names = [f.name for f in catalog(folders).list_clusters()]
    assert names == sorted({*names})
    assert {"local", "zeus", "a100x16"} <= set(names)


def test_the_checkout_itself_is_not_its_own_shadow() -> None:
    here = find_shipped("clusters").parent
    for found in Catalog.standard(cwd=here, config=here / "none").list_clusters():
        assert (found.origin, found.shadows) == ("shipped", ())


def test_a_profile_extends_another_found_in_the_same_places(
    folders: tuple[Path, Path, Path],
) -> None:
    put(folders[1], "mine", "name: mine\nextends: 'a100x16'  # ours\nnodes: {count: 1}\n")
    found = catalog(folders).find_cluster("mine")
    assert found.parent is not None
    loaded = load_cluster(found.text, found.label, parent=found.parent)
    assert (loaded.value.nodes.count, loaded.value.nodes.gpus_per_node) == (1, 8)
    assert str(loaded.cite("nodes", "gpu")).startswith("clusters/a100x16.yaml:")


def test_a_profile_may_extend_the_shipped_one_of_its_name(folders: tuple[Path, Path, Path]) -> None:
    put(folders[2], "a100x16", "name: a100x16\nextends: a100x16\nssh: {host: login}\n")
    found = catalog(folders).find_cluster("a100x16")
    assert found.parent is not None
    assert found.parent[1] == "clusters/a100x16.yaml"


def test_a_site_variant_extends_a_shipped_variant(folders: tuple[Path, Path, Path]) -> None:
    put(folders[1], "ours", "name: ours\nextends: dgx-h200\nnodes: {count: 3}\n")
    found = catalog(folders).find_cluster("ours")
    loaded = load_cluster(found.text, found.label, parent=found.parent)
    assert (loaded.value.nodes.count, loaded.value.nodes.gpu) == (3, "H200-SXM5-141GB")
    assert loaded.value.network.fabric == "infiniband"
    assert [*found.texts] == [found.label, "clusters/dgx-h200.yaml", "clusters/dgx-h100.yaml"]


def test_a_shipped_variant_extends_what_was_shipped_with_it(
    folders: tuple[Path, Path, Path],
) -> None:
    put(folders[1], "dgx-h100", "name: dgx-h100\nextends: dgx-h100\nnodes: {cpus: 2}\n")
    assert catalog(folders).find_cluster("dgx-h200").texts.keys() == {
        "clusters/dgx-h200.yaml",
        "clusters/dgx-h100.yaml",
    }


def test_profiles_that_extend_each_other_end(folders: tuple[Path, Path, Path]) -> None:
    put(folders[1], "a", "name: a\nextends: b\n")
    put(folders[1], "b", "name: b\nextends: a\n")
    found = catalog(folders).find_cluster("a")
    assert len(found.texts) == 2
    problems = check(found.text, found.label, parent=found.parent).problems
    assert [p.code for p in problems] == ["J177"]


def test_a_profile_that_cannot_be_read_is_named(folders: tuple[Path, Path, Path]) -> None:
    path = put(folders[1], "mine")
    path.unlink()
    path.symlink_to("mine.yaml")
    with pytest.raises(Missing):
        catalog(folders).find_cluster("mine")
    path.unlink()
    put(folders[1], "mine").chmod(0)
    if os.geteuid():
        with pytest.raises(Invalid):
            catalog(folders).find_cluster("mine")


def test_an_endless_profile_is_not_read_to_its_end(folders: tuple[Path, Path, Path]) -> None:
    put(folders[1], "mine", "#" + "x" * (3 << 20))
    assert len(catalog(folders).find_cluster("mine").text) == (1 << 20) + 1


def test_both_schedulers_have_templates() -> None:
    for scheduler in ("slurm", "local"):
        assert "job.sbatch.j2" in Catalog(()).read_templates(scheduler)


def test_listing_is_light() -> None:
    code = "import sys, jobgen.catalog as c; c.Catalog(()).list_clusters(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"yaml", "jobgen.load", "jobgen.model.job", "difflib"}.isdisjoint(done.stdout.split())


def test_a_plan_names_every_profile_that_it_was_made_from(folders: tuple[Path, Path, Path]) -> None:
    put(folders[1], "ours", "name: ours\nextends: dgx-h200\nnodes: {count: 3}\n")
    found = catalog(folders).find_cluster("ours")
    loaded = load_cluster(found.text, found.label, parent=found.parent)
    job = load_job("name: j\nnodes: 2\ntime: 1h\nrun: train.py\n", "job.yaml")
    sources = resolve(job, loaded, Facts()).sources
    assert [*sources] == ["job.yaml", "cluster ours", "extends dgx-h200", "extends dgx-h100"]
    assert len({*sources.values()}) == 4
