"""An RDMA port, whichever tool described it."""

from __future__ import annotations

from jobgen.named_tuple import NamedTuple


class Port(NamedTuple):
    """A port as one tool described it; '' and None where that tool says nothing.

    ``state`` is active, down, init or armed; ``layer`` infiniband, ethernet or unspecified (EFA);
    ``gbps`` the rate one way.
    """

    device: str
    port: int
    state: str = ""
    layer: str = ""
    gbps: float | None = None
    transport: str = ""

    @property
    def infiniband(self) -> bool:
        """Whether it is InfiniBand.

        The rdma-core of 2020 gives that layer to EFA too (its pull request 884); the transport
        of EFA is unspecified.
        """
        return self.layer == "infiniband" and self.transport in ("", "infiniband")


STATES = {"initializing": "init", "initialize": "init", "port_init": "init"}


def parse_state(word: str) -> str:
    """One spelling of a port's state: active of 'Active', 'PORT_ACTIVE (4)' and '4: ACTIVE'."""
    last = word.partition("(")[0].rpartition(":")[2].strip().lower()
    return STATES.get(last, last.removeprefix("port_"))
