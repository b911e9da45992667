"""The sizes of transformers, exact to the parameter: ``model(known("Llama-3.1-8B")).count``."""

from jobgen.strategy.shapes.architecture import Architecture, Experts
from jobgen.strategy.shapes.count import model
from jobgen.strategy.shapes.read import read
from jobgen.strategy.shapes.table import configured, known, near
from jobgen.strategy.shapes.written import written

__all__ = [
    "Architecture",
    "Experts",
    "configured",
    "known",
    "model",
    "near",
    "read",
    "written",
]
