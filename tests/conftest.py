"""What all tests share: the real test cluster, and a last word on what could not run here."""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
from collections.abc import Collection, Generator, Iterator
from typing import Any

import pytest

from tests import inputs, surroundings
from tests.cluster import Cluster, Options
from tests.cluster.install import ACCOUNTING_PROGRAMS, PROGRAMS, missing

REQUIRED = os.environ.get("JOBGEN_REQUIRE_CLUSTER") == "1"
"""In CI a cluster test that cannot run is a failure, not a skip."""
CLUSTER, TRAINING = "the test cluster", "training"
HOW = {
    CLUSTER: "as root: apt-get install --no-install-recommends "
    + " ".join(sorted({*PROGRAMS.values(), *ACCOUNTING_PROGRAMS.values()})),
    TRAINING: "pip install -c requirements/constraints.txt '.[train]' (see CONTRIBUTING.md)",
}
"""How to get what tests need that cannot run here."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full",
        action="store_true",
        help="exhaustive products too, and random inputs that differ from run to run",
    )
    parser.addoption("--golden-update", action="store_true", help="write tests/golden/*/ anew")
    parser.addoption(
        "--faults",
        type=_times,
        default=os.environ.get("JOBGEN_FAULTS", "1"),
        metavar="N",
        help="N times as many trials of each real fault (default: $JOBGEN_FAULTS, or 1)",
    )
    parser.addoption(
        "--mutations",
        type=_times,
        default=os.environ.get("JOBGEN_MUTATIONS", "100"),
        metavar="N",
        help="N mutations of real answers for each parser (default: $JOBGEN_MUTATIONS, or 100)",
    )


def _times(text: str) -> int:
    if text.isdecimal() and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"how many times? a whole number from 1 on, not {text!r}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``@pytest.mark.trials(NAME, VALUES)``: one test for each of VALUES(N), by ``--faults N``."""
    for marker in metafunc.definition.iter_markers("trials"):
        name, values = marker.args
        found = [*values(metafunc.config.getoption("faults"))]
        none = pytest.param(None, marks=pytest.mark.skip(reason="tried with more --faults only"))
        metafunc.parametrize(name, found or [none])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        names = getattr(item, "fixturenames", ())
        if "cluster" in names or "cluster_accounting" in names:
            item.add_marker("cluster")
    slow = {_unit(item.nodeid) for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: _place(_unit(item.nodeid), slow))
    if not config.getoption("--full"):
        exhaustive = [item for item in items if item.get_closest_marker("exhaustive")]
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]
        config.hook.pytest_deselected(items=exhaustive)


def pytest_collection_finish() -> None:
    """Each worker keeps all tests to its end: its collector need not go through them again."""
    gc.freeze()


UNITS = (
    ("tests/e2e/test_watching.py",),
    ("tests/e2e/test_strategies.py",),
    tuple(f"tests/examples/test_{name}.py" for name in ("gpt", "kills", "nvme")),
    *(
        (f"tests/e2e/test_{name}.py",)
        for name in (
            *("ends", "launchers", "elastic", "exactly_once", "races", "bench", "steps"),
            *("checkpoints", "preflight", "whole_nodes", "cluster_add", "large_sweeps"),
        )
    ),
    ("tests/examples/test_digits.py",),
    tuple(
        f"tests/strategy/{name}.py"
        for name in (
            *("test_accelerate", "test_deepspeed", "test_dsconfig", "test_hf_trainer"),
            *("test_lightning", "test_megatron", "test_megatron_model", "test_torchtitan"),
            *("memory/test_gpu_memory", "memory/test_memtracker"),
            *("shapes/test_built", "speed/test_recomputed"),
        )
    ),
    ("tests/examples/test_reproduce.py",),
)
"""The files that take longest, and those that share trainings or imports of torch and frameworks:
the longest first, so that short ones end, and those that train beside those that wait."""


def _unit(nodeid: str) -> str:
    """What runs in one worker: the tests of a file, which share modules, fixtures and caches, or
    of several; its first file."""
    file = nodeid.partition("::")[0]
    return next((unit[0] for unit in UNITS if file in unit), file)


def _place(unit: str, slow: Collection[str]) -> tuple[int, bool, bool]:
    """The place of a unit: the long ones, all others with a cluster, with slow tests, the rest."""
    places = (place for place, files in enumerate(UNITS) if unit == files[0])
    clusters = ("tests/e2e/", "tests/cluster/", "tests/zoo/test_live.py")
    return next(places, len(UNITS)), not unit.startswith(clusters), unit not in slow


class Units:
    """Under ``pytest -n`` each worker takes the next unit when it is done with one."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

        class ByUnit(LoadScopeScheduling):  # type: ignore[misc]
            def _split_scope(self, nodeid: str) -> str:
                return _unit(nodeid)

        config.option.loadscopereorder = False
        return ByUnit(config, log)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Units())
    surroundings.forget()
    surroundings.collect_less()
    inputs.load(free=config.getoption("--full"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("cluster"):
        accounting = "cluster_accounting" in getattr(item, "fixturenames", ())
        _need(CLUSTER, missing(accounting=accounting))
    for marker in item.iter_markers("train"):
        wanted = marker.args or ("torch",)
        absent = [name for name in wanted if importlib.util.find_spec(name) is None]
        _need(TRAINING, f"not installed: {' '.join(absent)}" if absent else "")


def _need(what: str, reason: str) -> None:
    if reason and REQUIRED:
        pytest.fail(f"{what} is required here, but: {reason}", pytrace=False)
    if reason:
        pytest.skip(f"{what}: {reason}")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A Slurm cluster without accounting, shared by all tests of this process."""
    with Cluster.up() as running:
        yield running


@pytest.fixture(scope="session")
def cluster_accounting() -> Iterator[Cluster]:
    """The same with slurmdbd, so that sacct answers."""
    with Cluster.up(Options(accounting=True)) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A cluster test that failed shows the last words of the controller and the nodes."""
    report = yield
    if report.failed and report.when == "call":
        arguments: dict[str, Any] = getattr(item, "funcargs", {})
        for running in (c for c in arguments.values() if isinstance(c, Cluster)):
            for log in sorted(running.layout.log.glob("*slurm*.log")):
                lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
                report.sections.append((f"{log.name}, its end", "\n".join(lines[-8:])))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in the last lines what was left out, and how to get it."""
    passed = terminalreporter.stats.get("passed", [])
    lists = [v for r in passed for k, v in r.user_properties if k == "stripped"]
    if lists:
        terminalreporter.section("options of plug-ins, stripped before sbatch --test-only")
        for name, *options in lists:
            terminalreporter.line(f"{name}: {', '.join(options)}")
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [str(r.longrepr[2]).removeprefix("Skipped: ") for r in skipped]
    for what, how in HOW.items():
        left_out = [reason for reason in reasons if reason.startswith(f"{what}: ")]
        if left_out:
            terminalreporter.section(f"{len(left_out)} tests were skipped: they need {what}")
            for reason in sorted(set(left_out)):
                terminalreporter.line(reason)
            terminalreporter.line(f"To run them, {how}")
