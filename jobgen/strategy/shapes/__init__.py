"""The sizes of transformers, exact to the parameter: ``build_model(sizes).count``."""

from jobgen.strategy.shapes.architecture import Architecture, Experts
from jobgen.strategy.shapes.count import build_model
from jobgen.strategy.shapes.read import read
from jobgen.strategy.shapes.table import find_config, find_model, suggest_models
from jobgen.strategy.shapes.written import complete_shape

__all__ = [
    "Architecture",
    "Experts",
    "build_model",
    "complete_shape",
    "find_config",
    "find_model",
    "read",
    "suggest_models",
]
