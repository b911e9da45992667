"""EFA and Slingshot: NCCL and RCCL reach both through the plug-in aws-ofi-nccl and libfabric.

Sources: aws/aws-ofi-nccl, doc/efa-env-var.md; HewlettPackard/shs-ccl-docs, ccl_env.sh.
"""

from __future__ import annotations

from jobgen.fabric.network_settings import NetworkSite, build_settings, set_sockets
from jobgen.model.decision import Setting
from jobgen.model.plan import Part

# releases of the plug-in after 1.11 call themselves Libfabric and still answer to this name
_PLUG_IN = "AWS Libfabric"
_OLD = {
    "FI_PROVIDER": ("efa", "aws-ofi-nccl 1.5 and older does not select the EFA provider by itself"),
    "NCCL_PROTO": ("simple", "the LL protocols fail over EFA with aws-ofi-nccl 1.5 and older"),
}
_RDMA = {"FI_EFA_USE_DEVICE_RDMA": ("1", "aws-ofi-nccl before 1.7 does not enable RDMA by default")}
_SLINGSHOT = {
    "NCCL_NET_GDR_LEVEL": (
        "PHB",
        "allow GPUDirect RDMA across the CPU's PCIe root; otherwise data is staged in host memory",
    ),
    "FI_MR_CACHE_MONITOR": (
        "userfaultfd",
        "recommended by HPE: libfabric's default memory monitor can deadlock with GPU memory",
    ),
    "FI_CXI_DISABLE_HOST_REGISTER": (
        "1",
        "recommended by HPE: registering host memory with the GPU driver can deadlock",
    ),
    "FI_CXI_DEFAULT_CQ_SIZE": (
        "131072",
        "recommended by HPE: many connections overflow the default completion queue",
    ),
}


def configure_efa(site: NetworkSite) -> Part:
    """The plug-in by name, and for old ones what they could not do themselves.

    A current plug-in sets buffers, chunk sizes, topology and tuner for each instance type.
    """
    place = site.place("network", "fabric")
    why = "EFA only: fail instead of silently falling back to TCP; the plug-in sets the rest itself"
    env = {"NCCL_NET": Setting(_PLUG_IN, why, place)}
    released = site.place("versions", "ofi_nccl")
    if site.is_older("ofi_nccl", "1.6"):
        env |= build_settings(_OLD, released)
    if site.is_older("ofi_nccl", "1.7"):
        env |= build_settings(_RDMA, released)
    if site.network.socket_ifname is None:
        why = "bootstrap over the instance's own interfaces, not over shared bridges"
        env["NCCL_SOCKET_IFNAME"] = Setting("^docker,lo,veth", why, place)
    return Part("", env=env | set_sockets(site))


def configure_slingshot(site: NetworkSite) -> Part:
    """The plug-in by name, and HPE's settings against deadlocks and overflowing queues."""
    place = site.place("network", "fabric")
    why = "Slingshot only: fail instead of silently falling back to TCP"
    env = {"NCCL_NET": Setting(_PLUG_IN, why, place)} | build_settings(_SLINGSHOT, place)
    return Part("", env=env | set_sockets(site))
