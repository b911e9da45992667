"""The variables of a sweep: a table in the bundle, and what each element reads of it."""

from __future__ import annotations

from jobgen.model.bundle import BundleFile
from jobgen.model.plan import Part, Setting
from jobgen.model.sweep import list_names
from jobgen.resolve.inputs import Inputs

FILE = "sweep.tsv"
"""A line with the names, then one line for each element, in the order of the indexes."""


def build_sweep(look: Inputs) -> Part:
    """The table of the elements, and their variables in the environment of every rank."""
    if look.job.sweep is None:
        return Part("sweep")
    elements = look.job.sweep.list_elements()
    names = list_names(elements)
    why, place = f"differs between elements ({FILE})", look.cite_job("sweep")
    rows = [names, *(tuple(element.values()) for element in elements)]
    table = "".join("\t".join(row) + "\n" for row in rows)
    env = {name: Setting(f"${name}", why, place) for name in names}
    return Part("sweep", env=env, files=(BundleFile(FILE, table.encode()),))
