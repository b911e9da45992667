"""What the GPUs of a node, or of a rack that is one NVLink domain, ask of NCCL.

Sources: NCCL's user guide, env.rst; huggingface/accelerate, utils/environment.py (drivers of
RTX 40 cards).
"""

from __future__ import annotations

from jobgen.fabric.network_settings import Env, NetworkSite
from jobgen.model.decision import Setting
from jobgen.model.part_plans import Mount
from jobgen.model.plan import Part, Shape

_IMEX = "/dev/nvidia-caps-imex-channels"


def configure_node(site: NetworkSite, shape: Shape) -> Part:
    """Peer access inside of the node; NVLink beyond it."""
    env = _peers(site, shape)
    if site.nodes.nvlink_nodes is None or shape.nodes < 2 or site.is_older("nccl", "2.21"):
        return Part("nodes", env=env)
    place = site.place("nodes", "nvlink_nodes")
    why = "one NVLink domain per rack: fail if IMEX is broken instead of falling back to InfiniBand"
    env["NCCL_MNNVL_ENABLE"] = Setting("1", why, place)
    if site.is_newer("nccl", "2.26") and site.is_older("nccl", "2.27"):
        why = "HCAs sit behind the Grace CPU: NCCL 2.26 does not use that path by default"
        env["NCCL_NET_GDR_C2C"] = Setting("1", why, place)
    return Part("nodes", env=env, mounts=(Mount(_IMEX, _IMEX),))


def _peers(site: NetworkSite, shape: Shape) -> Env:
    """RTX 40 cards have no peer access, and drivers before 550.40.07 said that they had."""
    if site.nodes.peer_access is not False or shape.gpus_per_node < 2:
        return {}
    if "RTX-40" in (site.nodes.gpu or "") and site.is_newer("driver", "550.40.07"):
        return {}
    why = "these GPUs have no peer access; NCCL hangs if the driver reports it anyway"
    return {"NCCL_P2P_DISABLE": Setting("1", why, site.place("nodes", "peer_access"))}
