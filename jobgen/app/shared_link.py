"""One connection for several steps of a command: a login with two factors is asked once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from jobgen.app.world import World
    from jobgen.model.record import Login
    from jobgen.shell import Result
    from jobgen.transport import Transport


@contextmanager
def share_connection(world: World) -> Iterator[World]:
    """A world whose connections to a login are one, until the block ends. It is made again after it
    was lost."""
    links: dict[Login, SharedTransport] = {}

    def dial(login: Login, say: Callable[[str], None]) -> Any:
        link = links.get(login)
        if link is None or link.is_lost:
            link = links[login] = SharedTransport(world.dial(login, say))
        return link

    try:
        yield replace(world, dial=dial)
    finally:
        for link in links.values():
            link.transport.close()


class SharedTransport:
    """A Transport for scripts alone that its users do not close."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.is_lost = False

    def call(self, *args: Any, **values: Any) -> Result:
        """As ``Transport.call``. A call that breaks off leaves nothing to go on with."""
        try:
            return self.transport.call(*args, **values)
        except BaseException:
            self.is_lost = True
            self.transport.close()
            raise

    def close(self) -> None:
        """Leave it to the next user."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it to the next user."""
