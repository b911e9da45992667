"""Where nodes have no internet, nothing is downloaded, and the job knows which model it needs."""

from __future__ import annotations

import pytest

from jobgen.model.part_plans import HubPlan
from jobgen.resolve.hub_settings import MODEL, REQUIRED
from tests.resolve.made import GPUS, JOB, job, plan

NAME = "meta-llama/Llama-3.1-8B"
ALONE = GPUS.replace("infiniband}", "infiniband, internet: false}")
ONLINE = GPUS.replace("infiniband}", "infiniband, internet: true}")
TRAIN = f"{{model: {NAME}, framework: hf-trainer}}"


def read_env(text: str, cluster: str = ALONE) -> dict[str, str]:
    env = plan(text, cluster).env
    return {name: s.value for name, s in env.items() if name.startswith(("HF_", "JOBGEN_HUB"))}


@pytest.mark.parametrize("cluster", [GPUS, ONLINE])
def test_with_internet_or_none_known_of_nothing_is_set(cluster: str) -> None:
    planned = plan(job(train=TRAIN), cluster)
    assert read_env(job(train=TRAIN), cluster) == {}
    assert planned.hub is None


def test_without_internet_the_hub_is_offline_with_its_reason() -> None:
    setting = plan(JOB, ALONE).env["HF_HUB_OFFLINE"]
    assert setting.value == "1"
    assert "no internet" in setting.why
    assert (setting.place.file, setting.place.line) == ("cluster big", 5)


def test_the_user_s_value_wins_and_ends_the_check() -> None:
    env = read_env(job(train=TRAIN, env="{HF_HUB_OFFLINE: '0'}"))
    assert env == {"HF_HUB_OFFLINE": "0"}


@pytest.mark.parametrize("name", ["HF_ENDPOINT", "HTTPS_PROXY", "https_proxy"])
def test_a_mirror_or_a_proxy_is_a_way_out(name: str) -> None:
    env = plan(job(env=f"{{{name}: 'http://proxy:3128'}}"), ALONE).env
    assert "HF_HUB_OFFLINE" not in env


def test_the_model_is_required_if_run_names_it() -> None:
    assert read_env(job(train=TRAIN)) == {"HF_HUB_OFFLINE": "1", MODEL: NAME}
    named = read_env(job(train=TRAIN, run=f"train.py --model {NAME}"))
    assert named == {"HF_HUB_OFFLINE": "1", MODEL: NAME, REQUIRED: "1"}


@pytest.mark.parametrize(
    "keys",
    [
        {"train": "{model: {layers: 2, hidden: 64, heads: 2, vocab: 100}}"},
        {"train": "{framework: torch}"},
        {"train": TRAIN, "run": "HF_HOME=/data/hf python train.py"},
    ],
)
def test_what_is_no_model_of_the_hub_or_lies_elsewhere_is_not_checked(keys: dict[str, str]) -> None:
    assert MODEL not in read_env(job(**keys))


def test_the_login_host_is_asked_where_it_sees_the_same_cache() -> None:
    keys = {"train": TRAIN, "env": "{HF_HOME: /scratch/$USER/hf}"}
    assert plan(job(**keys), ALONE).hub == HubPlan(NAME, {"HF_HOME": "/scratch/$USER/hf"})
    assert plan(job(**keys, setup="[module load hf]"), ALONE).hub is None
    keys["env"] = "{HF_HOME: /tmp/$SLURM_JOB_ID}"
    assert plan(job(**keys), ALONE).hub is None
