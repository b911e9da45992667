"""Which inputs hypothesis tries: the same ones in every ``make test``, others in ``make test-all``.

A counterexample that was found once stays as ``@example`` at its property.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

ANY_SPEED = (HealthCheck.too_slow,)
"""Suppressed health checks: no property is judged by how fast this machine is."""
ONE_FOLDER = (*ANY_SPEED, HealthCheck.function_scoped_fixture)
"""The same for a property whose inputs share one ``tmp_path``."""

# said in full: where CI is set, hypothesis starts with a profile of its own
settings.register_profile(
    "fixed", derandomize=True, database=None, deadline=None, suppress_health_check=ANY_SPEED
)
settings.register_profile(
    "free", derandomize=False, print_blob=True, deadline=None, suppress_health_check=ANY_SPEED
)


def load(*, free: bool) -> None:
    """Use the inputs of a fixed seed, or free ones. To be called before any test is imported."""
    settings.load_profile("free" if free else "fixed")
    if not free:
        # hypothesis also draws constants of all local modules that are imported by then, which
        # depends on the tests that ran before
        vars(providers)["_get_local_constants"] = providers.Constants
