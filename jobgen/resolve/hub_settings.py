"""Hugging Face without internet on the nodes: nothing is downloaded, and the model must be there.

Read: huggingface_hub 2.4 (constants.py). transformers 5 and datasets 4 read its HF_HUB_OFFLINE too,
so TRANSFORMERS_OFFLINE and HF_DATASETS_OFFLINE are not needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from jobgen.model.decision import Setting
from jobgen.model.part_plans import HubPlan
from jobgen.model.plan import Part
from jobgen.resolve.inputs import Inputs
from jobgen.shell import list_names

MODEL = "JOBGEN_HUB_MODEL"
"""The id of the model that rank.sh looks for in the cache."""
REQUIRED = "JOBGEN_HUB_REQUIRED"
"""Set where the job cannot run without it."""
_OFFLINE = "HF_HUB_OFFLINE"
_WAYS_OUT = ("HF_ENDPOINT", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
"""Variables by which a node without internet reaches the Hub or a mirror."""
_PLACES = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME")
"""Variables that say where the cache is; the first wins."""
_ANYWHERE = ("HOME", "USER")
"""Variables that have the same value on the login host."""
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


def configure_hub(look: Inputs) -> Part:
    """HF_HUB_OFFLINE where the profile says that nodes have no internet, and the model to check."""
    env = {**look.cluster.defaults.env, **look.job.env}
    if look.cluster.network.internet is not False or any(name in env for name in _WAYS_OUT):
        return Part("hub")
    why = "no internet on the nodes: use the Hugging Face cache instead of retrying downloads"
    place = look.cite_cluster("network", "internet")
    settings = {_OFFLINE: Setting("1", why, place)}
    model = _find_model(look)
    if model and env.get(_OFFLINE, "1") == "1":
        why = "must be in the Hugging Face cache of the nodes"
        settings[MODEL] = Setting(model, why, look.cite_job("train", "model"))
        if model in look.job.run:
            settings[REQUIRED] = Setting("1", "run names this model", look.cite_job("run"))
    return Part("hub", env=settings)


def _find_model(look: Inputs) -> str:
    """The id on the Hub that the job names; empty for sizes and files of the workdir."""
    model = look.job.train.model if look.job.train else None
    if not isinstance(model, str) or model.endswith(".json") or model in look.facts.texts:
        return ""
    if any(f"{name}=" in look.job.run for name in _PLACES):
        return ""  # the program looks elsewhere than rank.sh
    return model if _ID.fullmatch(model) else ""


def plan_hub(look: Inputs, env: Mapping[str, Setting]) -> HubPlan | None:
    """What the login host can be asked before a submit; None where it cannot know.

    Setup may change the variables on the node, and a container has other directories.
    """
    job, defaults = look.job, look.cluster.defaults
    if MODEL not in env or job.container or defaults.container or job.setup or defaults.setup:
        return None
    places = {name: env[name].value for name in _PLACES if name in env}
    if any(name not in _ANYWHERE for value in places.values() for name in list_names(value)):
        return None
    return HubPlan(env[MODEL].value, places)
