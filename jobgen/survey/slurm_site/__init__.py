"""What Slurm tells about a site: the questions, and their answers as values. No IO here.

Text only, with the options that 22.05 has; every parser takes any text, passes over what it does
not know, and takes time in proportion to the text's length.
"""

from jobgen.survey.slurm_site.accounts import (
    Association,
    Qos,
    associations,
    default_account,
    qualities,
)
from jobgen.survey.slurm_site.nodes import SlurmNode, nodes
from jobgen.survey.slurm_site.partitions import Partition, partitions
from jobgen.survey.slurm_site.scontrol_fields import (
    Gres,
    clock,
    gres,
    records,
    seconds,
    settings,
    tres,
)
from jobgen.survey.slurm_site.sinfo import NodeGroup, groups
from jobgen.survey.slurm_site.site import ABSENT, SlurmSite, commands, site

__all__ = [
    "ABSENT",
    "Association",
    "Gres",
    "NodeGroup",
    "Partition",
    "Qos",
    "SlurmNode",
    "SlurmSite",
    "associations",
    "clock",
    "commands",
    "default_account",
    "gres",
    "groups",
    "nodes",
    "partitions",
    "qualities",
    "records",
    "seconds",
    "settings",
    "site",
    "tres",
]
