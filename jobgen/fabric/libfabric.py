"""EFA and Slingshot: NCCL and RCCL reach both through the plug-in aws-ofi-nccl and libfabric.

Sources: aws/aws-ofi-nccl, doc/efa-env-var.md; HewlettPackard/shs-ccl-docs, ccl_env.sh.
"""

from __future__ import annotations

from jobgen.fabric.network_settings import NetworkSite, build_settings, set_sockets
from jobgen.model.plan import Part, Setting

# releases of the plug-in after 1.11 call themselves Libfabric and still answer to this name
_PLUG_IN = "AWS Libfabric"
_OLD = {
    "FI_PROVIDER": ("efa", "aws-ofi-nccl up to 1.5 does not choose the EFA provider itself"),
    "NCCL_PROTO": ("simple", "the low-latency protocols fail over EFA up to aws-ofi-nccl 1.5"),
}
_RDMA = {"FI_EFA_USE_DEVICE_RDMA": ("1", "aws-ofi-nccl before 1.7 uses RDMA only where it is told")}
_SLINGSHOT = {
    "NCCL_NET_GDR_LEVEL": (
        "PHB",
        "a card on the CPU's bridge may read GPU memory: else all goes through the host's",
    ),
    "FI_MR_CACHE_MONITOR": (
        "userfaultfd",
        "HPE's setting: libfabric's other way to watch freed memory can deadlock with GPUs' memory",
    ),
    "FI_CXI_DISABLE_HOST_REGISTER": (
        "1",
        "HPE's setting: registering host memory with the GPU's driver can deadlock",
    ),
    "FI_CXI_DEFAULT_CQ_SIZE": (
        "131072",
        "HPE's setting: the completion queues of many connections would run over",
    ),
}


def configure_efa(site: NetworkSite) -> Part:
    """The plug-in by name, and for old ones what they could not do themselves.

    A current plug-in sets buffers, chunk sizes, topology and tuner for each instance type.
    """
    place = site.place("network", "fabric")
    why = "the network is EFA: NCCL must use its plug-in, which sets the rest itself, and not TCP"
    env = {"NCCL_NET": Setting(_PLUG_IN, why, place)}
    released = site.place("versions", "ofi_nccl")
    if site.is_older("ofi_nccl", "1.6"):
        env |= build_settings(_OLD, released)
    if site.is_older("ofi_nccl", "1.7"):
        env |= build_settings(_RDMA, released)
    if site.network.socket_ifname is None:
        why = "bootstrap over the instance's own interfaces, not over bridges that others share"
        env["NCCL_SOCKET_IFNAME"] = Setting("^docker,lo,veth", why, place)
    return Part("", env=env | set_sockets(site))


def configure_slingshot(site: NetworkSite) -> Part:
    """The plug-in by name, and HPE's settings against deadlocks and overflowing queues."""
    place = site.place("network", "fabric")
    why = "the network is Slingshot: NCCL and RCCL must use their plug-in for it, and not TCP"
    env = {"NCCL_NET": Setting(_PLUG_IN, why, place)} | build_settings(_SLINGSHOT, place)
    return Part("", env=env | set_sockets(site))
