"""Other releases of Slurm than this machine's, each in a tree of its own that debootstrap makes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.cluster.layout import REPOSITORY

SUITES = {"24.11.5": "trixie", "26.05.5": "forky"}
"""A release of Slurm, and the suite of Debian that has it."""
FOLDER = REPOSITORY / "build" / "releases"
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge", "openssh-server", "openssh-client")
OTHERS = ("iproute2", "pdsh", "procps", "python3-minimal")


def missing() -> str:
    """Why no other release can be had here; empty where it can."""
    return (
        ""
        if shutil.which("debootstrap", path="/usr/sbin:/usr/bin")
        else ("not installed: debootstrap")
    )


def make_tree(suite: str) -> Path:
    """The tree of a suite, made once: some 300 MB and two minutes."""
    tree = FOLDER / suite
    if not (tree / "made").exists():
        shutil.rmtree(tree, ignore_errors=True)
        tree.parent.mkdir(parents=True, exist_ok=True)
        include = ",".join((*PACKAGES, *OTHERS))
        words = ["debootstrap", "--variant=minbase", f"--include={include}", suite, str(tree)]
        # sid's script is right for every suite that this debootstrap is too old to know
        subprocess.run([*words, _mirror(), "sid"], check=True, capture_output=True)
        (tree / "made").touch()
    return tree


def _mirror() -> str:
    """Where this machine's own packages come from."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Identifier: Packages"]
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return next(line for line in told.split() if line.rstrip("/").endswith("/debian"))
