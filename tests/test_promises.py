"""What holds for the pure half as a whole process: same bytes, no network, no file written."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from jobgen.cli import main
from jobgen.load import Kind, build_schema
from tests.waiting import HANG

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted(
    path for path in (ROOT / "examples").rglob("*.yaml") if "\nrun:" in path.read_text()
)
CLUSTERS = sorted(path.stem for path in (ROOT / "clusters").glob("*.yaml"))
JOB = "examples/digits-ddp/job.yaml"
JOBGEN = [sys.executable, "-m", "jobgen"]


def run(
    *words: str, cwd: Path = ROOT, before: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[bytes]:
    """A whole process of jobgen, with hardly any environment."""
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*before, *JOBGEN, *words],
        cwd=cwd,
        env=base | env,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=HANG,
    )


@pytest.mark.parametrize("cluster", ["local", "a100x16"])
def test_the_same_render_gives_the_same_bytes_everywhere(cluster: str, tmp_path: Path) -> None:
    job = str(ROOT / JOB)
    other = tmp_path / "a folder"
    other.mkdir()
    rendered = {
        run("render", job, "-c", cluster, cwd=cwd, HOME=str(tmp_path), **env).stdout
        for cwd, env in (
            (ROOT, {"PYTHONHASHSEED": "1", "LC_ALL": "C", "COLUMNS": "40"}),
            (other, {"PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8", "COLUMNS": "200"}),
            (tmp_path, {"PYTHONHASHSEED": "3", "LANG": "de_DE.UTF-8", "TZ": "Asia/Tokyo"}),
        )
    }
    assert len(rendered) == 1
    assert rendered.pop().startswith(b"#!/bin/bash\n")


def test_a_written_bundle_is_what_render_prints(tmp_path: Path) -> None:
    printed = run("render", JOB, "-c", "a100x16", HOME=str(tmp_path)).stdout
    run("render", JOB, "-c", "a100x16", "-o", str(tmp_path / "out"), HOME=str(tmp_path))
    assert (tmp_path / "out/job.sbatch").read_bytes() == printed
    check = run("render", JOB, "-c", "a100x16", "--check", str(tmp_path / "out"))
    assert check.returncode == 0, check.stderr
    (tmp_path / "out/node.sh").write_text("changed\n")
    check = run("render", JOB, "-c", "a100x16", "--check", str(tmp_path / "out"))
    assert check.returncode == 1
    assert b"node.sh" in check.stdout + check.stderr


WRITES = re.compile(
    rb'(?:open|openat|creat)\([^"]*"(?P<path>[^"]*)"[^)]*'
    rb"(?:O_WRONLY|O_RDWR|O_CREAT)[^)]*\)\s+=\s+\d+"
)
CHANGES = re.compile(
    rb"^(?:\d+\s+)?(?:mkdir|mkdirat|rename|renameat2?|unlink|unlinkat|symlink\w*|link\w*|chmod)\("
    rb".*=\s0$",
    re.MULTILINE,
)
CONNECTS = re.compile(rb"connect\(\d+, \{sa_family=AF_INET")


@pytest.mark.parametrize(
    "words",
    [
        ("render", JOB, "-c", "a100x16"),
        ("plan", JOB, "-c", "a100x16"),
        ("lint", JOB, "clusters/a100x16.yaml"),
        ("submit", JOB, "-c", "a100x16", "--dry-run"),
        ("ls",),
        ("cluster", "ls"),
    ],
    ids=lambda words: words[0],
)
def test_it_writes_nothing_and_asks_no_network(words: tuple[str, ...], tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if not strace:
        pytest.skip("needs strace: apt-get install strace")
    log = tmp_path / "trace"
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    calls = "trace=open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,unlink,unlinkat,"
    calls += "symlink,symlinkat,link,linkat,chmod,connect"
    before = (strace, "-f", "-qq", "-e", calls, "-o", str(log))
    done = run(*words, before=before, HOME=str(home))
    assert done.returncode == 0, done.stderr
    trace = log.read_bytes()
    written = {m["path"] for m in WRITES.finditer(trace)} - {b"/dev/null", b"/dev/tty"}
    assert written == set()
    assert CHANGES.findall(trace) == []
    assert CONNECTS.findall(trace) == []
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_example_renders_for_every_shipped_profile(
    cluster: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    code = main.run(("render", JOB, "-c", cluster))
    said = capsys.readouterr()
    assert code == 0, said.err
    check = subprocess.run(["bash", "-n"], input=said.out.encode(), capture_output=True)
    assert check.returncode == 0, check.stderr


@pytest.mark.slow
def test_the_wheel_alone_renders_every_example(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), "."]
    subprocess.run(build, cwd=ROOT, check=True)
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", str(bare)], check=True)
    wheel = next(tmp_path.glob("jobgen-*.whl"))
    with zipfile.ZipFile(wheel) as packed:
        kinds: tuple[Kind, ...] = ("job", "cluster")
        for kind in kinds:
            schema = json.loads(packed.read(f"jobgen/_data/schemas/{kind}.schema.json"))
            assert schema == json.loads(json.dumps(build_schema(kind)))
    pins = ROOT / "requirements" / "constraints.txt"
    install = [bare / "bin/pip", "--disable-pip-version-check", "install", "-q", "-c", pins, wheel]
    subprocess.run(install, check=True, cwd=tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    env = {"PATH": f"{bare}/bin:{os.environ['PATH']}", "HOME": str(tmp_path)}
    assert EXAMPLES
    calls = []
    for example in EXAMPLES:
        words = ["render", str(example.relative_to(ROOT)), "-o", f"out/{len(calls)}"]
        calls.append(words + ([] if "\ncluster:" in example.read_text() else ["-c", "a100x16"]))
    every = f"from jobgen.cli.main import run; [print(run(words)) for words in {calls}]"
    done = subprocess.run(["python", "-c", every], cwd=tmp_path, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr
    for number, words in enumerate(calls):
        script = tmp_path / "out" / str(number) / "job.sbatch"
        assert script.exists(), (words, done.stderr)
        assert script.read_bytes().startswith(b"#!/bin/bash\n")
