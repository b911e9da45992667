"""What Slurm tells about a site: the questions, and their answers as values. No IO here.

Text only, with the options that 22.05 has; every parser takes any text, passes over what it does
not know, and takes time in proportion to the text's length.
"""

from jobgen.survey.slurm_site.nodes import SlurmNode
from jobgen.survey.slurm_site.partitions import Partition
from jobgen.survey.slurm_site.scontrol_fields import Gres, format_limit, parse_limit
from jobgen.survey.slurm_site.site import ABSENT, SlurmSite, list_commands, read_site

__all__ = [
    "ABSENT",
    "Gres",
    "Partition",
    "SlurmNode",
    "SlurmSite",
    "format_limit",
    "list_commands",
    "parse_limit",
    "read_site",
]
