"""Google Cloud's networks: TCPX (a3-highgpu), TCPXO (a3-megagpu), gIB (a3-ultragpu, a4).

Each comes with a plug-in, installed on the node under one path, and Google pins the settings that
go with it: TCPX as a list, TCPXO and gIB as a script that changes with the plug-in. The job's
environment wins over that script, as in Google's own run scripts. Sources:
GoogleCloudPlatform/cluster-toolkit, examples/machine-learning/*/nccl-tests/run-nccl-tests.sh;
NCCL_NET=FasTrak: NVIDIA/dgxc-benchmarking, README.md, and allenai/OLMo, scripts/augusta.
"""

from __future__ import annotations

from jobgen.errors import Place
from jobgen.fabric.network_settings import Env, NetworkSite, build_settings, set_sockets
from jobgen.model.decision import Setting
from jobgen.model.part_plans import Mount
from jobgen.model.plan import Part

_TCPX, _TCPXO, _GIB = "/var/lib/tcpx/lib64", "/var/lib/tcpxo/lib64", "/usr/local/gib"
_SOCKET = "/run/tcpx-$SLURM_JOB_ID"
_APERTURE = "/dev/aperture_devices"
_PINNED = "required by Google for TCPX"
_TCPX_LIST = {
    "NCCL_CROSS_NIC": ("0", f"{_PINNED}: each NIC talks only to its own rail"),
    "NCCL_ALGO": ("Ring", f"{_PINNED}: tuned for rings"),
    "NCCL_PROTO": ("Simple", f"{_PINNED}: the LL protocols do not work over TCP"),
    "NCCL_NSOCKS_PERTHREAD": ("4", f"{_PINNED}: streams per NIC"),
    "NCCL_SOCKET_NTHREADS": ("1", f"{_PINNED}: must match the thread bindings"),
    "NCCL_DYNAMIC_CHUNK_SIZE": ("524288", f"{_PINNED}: chunk size"),
    "NCCL_P2P_NET_CHUNKSIZE": ("524288", f"{_PINNED}: chunk size"),
    "NCCL_P2P_PCI_CHUNKSIZE": ("524288", f"{_PINNED}: chunk size"),
    "NCCL_P2P_NVL_CHUNKSIZE": ("1048576", f"{_PINNED}: chunk size"),
    "NCCL_BUFFSIZE": ("4194304", f"{_PINNED}: channel buffer size"),
    "NCCL_NET_GDR_LEVEL": ("PIX", f"{_PINNED}: a NIC serves the GPUs on its own PCIe switch"),
    "NCCL_P2P_PXN_LEVEL": ("0", f"{_PINNED}: GPUs do not send through another GPU's NIC"),
    "NCCL_GPUDIRECTTCPX_PROGRAM_FLOW_STEERING_WAIT_MICROS": (
        "500000",
        f"{_PINNED}: time for the NIC to program a flow rule",
    ),
}


def configure_tcpx(site: NetworkSite) -> Part:
    """The plug-in by name, its interfaces, and Google's whole list."""
    place = site.place("network", "fabric")
    why = "TCPX only: fail instead of silently falling back to plain TCP"
    env = {"NCCL_NET": Setting("GPUDirectTCPX_v7", why, place)} | set_sockets(site)
    env |= _interfaces(site, "NCCL_GPUDIRECTTCPX_CTRL_DEV", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME")
    why = "socket of the TCPX receive daemon, which the prologue starts"
    env["NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX"] = Setting(_SOCKET, why, place)
    return Part(
        "",
        env=env | build_settings(_TCPX_LIST, place),
        setup=(_there(_TCPX, place), _library(_TCPX, place)),
        mounts=(Mount(_TCPX, _TCPX), Mount(_SOCKET, _SOCKET)),
    )


def configure_tcpxo(site: NetworkSite) -> Part:
    """Google's script, the plug-in by name, and the interfaces: the plug-in checks the rest."""
    place = site.place("network", "fabric")
    why = "TCPXO only: fail instead of silently falling back to plain TCP"
    env = {"NCCL_NET": Setting("FasTrak", why, place)} | _bootstrap(site)
    env |= _interfaces(site, "NCCL_FASTRAK_CTRL_DEV", "NCCL_FASTRAK_IFNAME")
    why = "device memory apertures of the NICs"
    env["NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY"] = Setting(_APERTURE, why, place)
    return Part(
        "",
        env=env,
        scripts=_sourced(f"{_TCPXO}/nccl-env-profile.sh", place, f"NCCL_LIB_DIR={_TCPXO} "),
        setup=(_library(_TCPXO, place),),
        mounts=(Mount(_TCPXO, _TCPXO), Mount(_APERTURE, _APERTURE)),
    )


def configure_gib(site: NetworkSite) -> Part:
    """Google's script, and the plug-in by name."""
    place = site.place("network", "fabric")
    why = "gIB only (RDMA): fail instead of silently falling back to TCP"
    return Part(
        "",
        env={"NCCL_NET": Setting("gIB", why, place)} | _bootstrap(site),
        scripts=_sourced(f"{_GIB}/scripts/set_nccl_env.sh", place),
        setup=(_library(f"{_GIB}/lib64", place),),
        mounts=(Mount(_GIB, _GIB),),
    )


def _bootstrap(site: NetworkSite) -> Env:
    """NCCL_SOCKET_IFNAME as Google's run scripts write it: both plug-ins check NCCL's settings."""
    names = site.network.socket_ifname
    if names is None:
        return {}
    why = "bootstrap interface, spelled as in Google's run scripts, because the plug-in checks it"
    return {"NCCL_SOCKET_IFNAME": Setting(names, why, site.place("network", "socket_ifname"))}


def _interfaces(site: NetworkSite, control: str, data: str) -> Env:
    """Whole names, without the ``=`` of NCCL_SOCKET_IFNAME, which the plug-ins do not know."""
    network, env = site.network, Env()
    if network.socket_ifname is not None:
        why = "interface for control connections"
        place = site.place("network", "socket_ifname")
        env[control] = Setting(network.socket_ifname.lstrip("=^"), why, place)
    if network.data_ifname is not None:
        why = "interfaces of the training network"
        place = site.place("network", "data_ifname")
        env[data] = Setting(network.data_ifname, why, place)
    return env


def _there(path: str, place: Place) -> Setting:
    """A line that ends the job where the plug-in is missing."""
    why = "without Google's plug-in, NCCL falls back to slow TCP"
    missing = "the plug-in is not installed on this node, or not mounted into the container"
    return Setting(f"[[ -r {path} ]] || die 96 '{path}: {missing}'", why, place)


def _sourced(script: str, place: Place, before: str = "") -> tuple[Setting, ...]:
    """Lines that source the plug-in's script.

    They run on the node, inside of a container where there is one, so what the script exports
    needs no naming to reach the ranks.
    """
    why = "Google's settings for this network, shipped with the plug-in"
    return (_there(script, place), Setting(f"{before}source {script}", why, place))


def _library(lib: str, place: Place) -> Setting:
    """A line that puts the plug-in's libraries first, whatever the job's environment says."""
    path = f"export LD_LIBRARY_PATH={lib}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
    return Setting(path, "lets NCCL find the plug-in", place)
