"""Options of sbatch: every one is known, and every value is of its kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.cli.main import run as run_command
from jobgen.data import sbatch_options
from jobgen.load import check
from tests.load.test_jobs import load, problem, text, warned


@pytest.mark.parametrize(
    ("given_", "name", "value"),
    [
        ("{partition: gpu}", "partition", "gpu"),
        ("{mem_per_cpu: 4G}", "mem-per-cpu", "4G"),
        ("{mem-per-cpu: 1.5GiB}", "mem-per-cpu", "1536M"),
        ("{exclusive: true}", "exclusive", ""),
        ("{exclusive: user}", "exclusive", "user"),
        ("{exclusive: false}", "exclusive", None),
        ("{kill-on-invalid-dep: true}", "kill-on-invalid-dep", "yes"),
        ("{wait-all-nodes: true}", "wait-all-nodes", "1"),
        ("{nice: -5}", "nice", "-5"),
        ("{nice: 0100}", "nice", "0100"),
        ("{mail-type: 'END,fail'}", "mail-type", "END,fail"),
        ("{mail-type: [END, FAIL]}", "mail-type", "END,FAIL"),
        ("{time-min: 90m}", "time-min", "01:30:00"),
        ("{switches: 1@1h}", "switches", "1@01:00:00"),
        ("{begin: now+1hour}", "begin", "now+1hour"),
        ("{begin: 2026-12-24T18:00}", "begin", "2026-12-24T18:00"),
        ("{constraint: '[a100|h100]&ib'}", "constraint", "[a100|h100]&ib"),
        ("{comment: my own words}", "comment", "my own words"),
        ("{gres: 'nvme:1'}", "gres", "nvme:1"),
        ("{nodelist: 'n[01-04,7]'}", "nodelist", "n[01-04,7]"),
        ("{mail-user: me@example.org}", "mail-user", "me@example.org"),
        ("{extra: [--comment=alpha]}", "comment", "alpha"),
    ],
)
def test_an_option_is_put_into_one_form(given_: str, name: str, value: str | None) -> None:
    loaded = load(f"slurm: {given_}")
    assert dict(loaded.value.slurm) == {name: value}
    assert loaded.find_place("slurm", name).line == 6


@pytest.mark.parametrize(
    ("given_", "code", "hint"),
    [
        ("{partitoin: gpu}", "J140", "partition"),
        ("{p: gpu}", "J140", "partition"),
        ("{--qos: high}", "J140", "qos"),
        ("{site-option: 1}", "J140", "extra"),
        ("{nodes: 4}", "J141", "'nodes'"),
        ("{job-name: x}", "J141", "'name'"),
        ("{cpus_per_task: 4}", "J141", "'cpus_per_task'"),
        ("{gres: 'gpu:8'}", "J141", "'gpus_per_node'"),
        ("{gres: 'nvme:1,gpu:a100:8'}", "J141", "'gpus_per_node'"),
        ("{tres-per-task: 'cpu:4'}", "J141", "'cpus_per_task'"),
        ("{gpu-bind: closest}", "J141", "'launcher'"),
        ("{tres-bind: 'gres/gpu:closest'}", "J141", "'launcher'"),
        ("{extra: [--gpu-bind=single:1]}", "J141", "'launcher'"),
        ("{output: x}", "J141", "run directory; use: jobgen logs"),
        ("{open-mode: append}", "J144", "requeued"),
        ("{wait: true}", "J141", "use: jobgen submit --wait"),
        ("{export: ALL}", "J141", "'env'"),
        ("{requeue: true}", "J141", "checkpoint"),
        ("{array: 0-35}", "J141", "'array'"),
        ("{wrap: id}", "J141", "'run'"),
        ("{share: true}", "J142", "oversubscribe"),
        ("{workdir: /x}", "J142", "workdir"),
        ("{x11: true}", "J142", ""),
        ("{nice: very}", "J143", ""),
        ("{contiguous: 1}", "J143", "true or false"),
        ("{qos: true}", "J143", "name"),
        ("{qos: {a: b}}", "J143", "name"),
        ("{time-min: 90}", "J143", "90m"),
        ("{mem-per-gpu: 4000}", "J143", "4000M"),
        ("{mail-type: ALWAYS}", "J143", "END"),
        ("{begin: later}", "J143", "now+1hour"),
        ("{account: 'a b'}", "J145", ""),
        ("{account: é}", "J145", ""),
        ("{account: $USER}", "J145", ""),
        ("{account: '`id`'}", "J145", ""),
        ("{constraint: '\"x\"'}", "J145", ""),
        ("{constraint: 'a\\b'}", "J145", ""),
        ('{comment: "a\\n#SBATCH --uid=0"}', "J145", ""),
        ('{comment: "a\\x1b[2J"}', "J145", ""),
        ("{qos: ''}", "J145", ""),
        ("{help: true}", "J144", ""),
        ("{uid: 0}", "J144", "root"),
        ("{extra: --x=1}", "J146", "'--name=value'"),
        ("{extra: [-N4]}", "J146", ""),
        ("{extra: ['--nodes=4']}", "J141", "'nodes'"),
        ("{extra: ['--site=$HOME']}", "J145", ""),
        ("{extra: ['--site 1']}", "J146", ""),
        ("[--partition=gpu]", "J120", ""),
    ],
)
def test_an_option_that_does_not_fit_is_refused(given_: str, code: str, hint: str) -> None:
    found = problem(f"slurm: {given_}")
    assert found.code == code
    assert hint in found.hint
    assert "\x1b" not in found.message


def test_words_of_a_plug_in_are_kept_as_they_are() -> None:
    job = load("slurm: {extra: ['--site-disk=2T', --fast]}").value
    assert job.slurm_extra == ("--site-disk=2T", "--fast")
    assert dict(job.slurm) == {}


def test_the_same_option_in_two_spellings_is_a_contradiction() -> None:
    assert problem("slurm: {mem-per-cpu: 1G, mem_per_cpu: 2G}").code == "J138"


def test_an_option_that_is_gone_in_new_releases_is_pointed_out() -> None:
    assert warned("slurm: {power: level}") == ["J142"]


def test_every_option_of_the_catalogue_has_an_answer() -> None:
    """No option is unknown, whatever stands behind it; ours name the key to use."""
    for name, option in sbatch_options().items():
        for value in ("true", "1", "x", "1G", "04:00:00"):
            found = check(text(f"slurm: {{{name}: {value}}}"), "job.yaml").problems
            codes = {p.code for p in found}
            assert not codes - {"J141", "J142", "J143", "J144", "J146", "J147"}, (name, found)
            if option.rule == "refuse":
                assert codes & {"J141", "J144"}
                assert all(option.key in p.hint for p in found)


@given(st.text(max_size=40), st.sampled_from(["account", "constraint", "comment", "nodelist"]))
def test_no_value_brings_a_line_or_a_quote_into_a_directive(value: str, name: str) -> None:
    import json

    found = check(text(f"slurm: {{{name}: {json.dumps(value)}}}"), "job.yaml")
    if found.valid:
        settled = load(f"slurm: {{{name}: {json.dumps(value)}}}").value.slurm[name]
        assert settled is not None
        assert settled.isprintable()
        assert not set(settled) & set("$`'\"\\\r\n")
        assert name == "comment" or not any(c.isspace() for c in settled)


def test_the_advice_for_a_typed_gres_names_the_keys_of_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "name: x\ncluster: a100x16\nnodes: 1\ntime: 1h\nrun: train.py\n"
    text += "slurm: {gres: 'gpu:1g.12gb:1'}\n"
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run_command(["lint", "job.yaml"]) == 3
    screen = " ".join(capsys.readouterr().out.replace("|", " ").split())
    assert "gpu_request and gpu_type of the cluster" in screen
