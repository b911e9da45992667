"""``sacctmgr -n -P``: who may use what.

The database keeps its names in lower case, other commands do not: man sacctmgr, NOTE.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobgen.named_tuple import NamedTuple
from jobgen.shell import split_lines
from jobgen.survey.slurm_site.scontrol_fields import read_value, split_list

ASSOCIATION = "Cluster,Account,Partition,QOS,DefaultQOS,MaxWall"
USER = "User,DefaultAccount"
QOS = "Name,MaxWall,Flags"


class Association(NamedTuple):
    """One association of a user: an account on a cluster, perhaps for one partition only."""

    cluster: str
    account: str
    partition: str = ""
    """The one partition it is for; empty: all."""
    qos: tuple[str, ...] = ()
    default_qos: str = ""
    max_wall: str = ""

    def concerns(self, partition: str) -> bool:
        """Whether it is for jobs in this partition."""
        return self.partition.lower() in ("", partition.lower())


class Qos(NamedTuple):
    """A quality of service."""

    name: str
    max_wall: str = ""
    """The longest time of a job, as Slurm writes it; empty where there is no limit."""
    flags: tuple[str, ...] = ()


def parse_associations(text: str) -> tuple[Association, ...]:
    """The rows of ``sacctmgr -n -P show assoc format=…`` in the fields of ``ASSOCIATION``."""
    found = (
        Association(
            read_value(cluster),
            read_value(account),
            read_value(partition),
            _granted(qos),
            read_value(one),
            read_value(most),
        )
        for cluster, account, partition, qos, one, most in _rows(text, 6)
    )
    return tuple(one for one in found if one.account)


def _granted(text: str) -> tuple[str, ...]:
    """The names of a list of QOS: ``+long`` is one more than the account has, ``-long`` is gone."""
    return tuple(word.lstrip("+") for word in split_list(text) if not word.startswith("-"))


def parse_default_account(text: str, user: str) -> str:
    """The user's default account in ``sacctmgr -n -P show user format=…``; empty without one."""
    found = (
        read_value(account)
        for name, account in _rows(text, 2)
        if name.strip().lower() == user.lower()
    )
    return next((account for account in found if account), "")


def parse_qos(text: str) -> tuple[Qos, ...]:
    """The rows of ``sacctmgr -n -P show qos format=…`` in the fields of ``QOS``."""
    found = (
        Qos(read_value(name), read_value(wall), split_list(flags))
        for name, wall, flags in _rows(text, 3)
    )
    return tuple(one for one in found if one.name)


def _rows(text: str, fields: int) -> Iterator[list[str]]:
    """Lines of exactly this many fields; a banner or a complaint has not as many."""
    for line in split_lines(text):
        row = line.split("|")
        if len(row) == fields:
            yield row
