"""The variables of a sweep: a table in the bundle, and what each element reads of it."""

from __future__ import annotations

from jobgen.model.bundle import BundleFile
from jobgen.model.decision import Setting
from jobgen.model.plan import Part
from jobgen.model.sweep import TABLE, format_table, list_names
from jobgen.payload import text
from jobgen.resolve.inputs import Inputs


def build_sweep(look: Inputs) -> Part:
    """The table of the elements, and their variables in the environment of every rank."""
    if look.job.sweep is None:
        return Part("sweep")
    elements = look.job.sweep.list_elements()
    why, place = f"differs between elements ({TABLE})", look.cite_job("sweep")
    env = {name: Setting(f"${name}", why, place) for name in list_names(elements)}
    files = [BundleFile(TABLE, format_table(elements))]
    if look.job.sweep.pack is not None:
        files.append(BundleFile("packed.sh", text("packed.sh").encode()))
    return Part("sweep", env=env, files=tuple(files))
