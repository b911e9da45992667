"""``jobgen plan`` with the planner's part, through the front door."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from jobgen.data.message_codes import codes
from jobgen.errors import Exit
from tests.cli.conftest import Jobgen
from tests.effort import count_calls

JOB = """\
name: llama
nodes: 2
gpus_per_node: 8
time: 4h
mem: 0
run: train.py
train: {model: meta-llama/Llama-3.1-8B, strategy: STRATEGY, seq_len: 4096, micro_batch: 1}
"""
ON = ("job.yaml", "-c", "a100x16")
PROFILE = """\
name: NAME
scheduler: slurm
ssh: host
paths: {root: /scratch/jobgen}
nodes: {count: 4, gpus_per_node: 8, gpu: GPU, cpus: 128, mem: 1TiB}
network: {fabric: infiniband}
price: {PRICE}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print('hi')\n")
    _write(tmp_path, "auto")
    return tmp_path


def _write(folder: Path, strategy: str) -> None:
    (folder / "job.yaml").write_text(JOB.replace("STRATEGY", strategy))


def test_the_simplest_that_fits_is_chosen_and_drawn(jobgen: Jobgen, folder: Path) -> None:
    said = jobgen("plan", *ON, "--section", "memory")
    assert said.code == Exit.DONE
    for part in ("Memory per GPU", "STRATEGY", "NEEDS", "limit 79.2 GiB", "fits:"):
        assert part in said.out
    assert "auto: simplest strategy that fits" in jobgen("plan", *ON, "--section", "decisions").out
    assert "auto takes the simplest that fits" in said.out
    assert re.search(r"\nStrategy  .* \(auto\); step ", jobgen("plan", *ON).out)
    assert "How it scales" not in said.out


def test_what_does_not_fit_ends_with_six_and_says_what_would_help(
    jobgen: Jobgen, folder: Path
) -> None:
    _write(folder, "ddp")
    said = jobgen("plan", *ON)
    assert said.code == Exit.UNFIT
    assert "does not fit: " in said.out
    assert "\nNext: jobgen plan job.yaml -c a100x16 --set train." in said.out
    data = json.loads(jobgen("plan", *ON, "--json").out)["data"]["estimate"]
    assert data["nearest_run"]["measured_bytes"] > 10 * 2**30
    assert {"assumed", "alternative", "change_bytes", "verdict"} == set(data["assumptions"][0])
    full = jobgen("plan", *ON, "--section", "memory")
    assert full.code == Exit.UNFIT
    assert "What would help (fits before tight, same GPUs before more, then fastest)" in full.out
    assert "Fewest nodes that fit: 1" in full.out
    assert full.err == ""
    assert "error[J251]" in jobgen("plan", *ON, "--section", "env").err
    assert jobgen("plan", *ON, "--force").code == Exit.DONE
    refused = jobgen("submit", *ON, "--dry-run")
    assert refused.code == Exit.UNFIT
    assert "J251" in refused.err
    assert "--force" in refused.err
    assert jobgen("submit", *ON, "--dry-run", "--force").code == Exit.DONE


def test_the_data_sum_up(jobgen: Jobgen, folder: Path) -> None:
    data = json.loads(jobgen("plan", *ON, "--json", "--nodes", "1,2").out)["data"]
    told = data["estimate"]
    assert told["chosen"] in {one["name"] for one in told["strategies"] if one["chosen"]}
    for one in told["strategies"]:
        memory = one["memory"]
        total = sum(part["size_bytes"] for part in memory["components"])
        assert total == pytest.approx(memory["nvidia_smi_bytes"])
    assert [row["nodes"] for row in told["scaling"]] == [1, 2]


def test_why_gives_every_formula_with_its_source(jobgen: Jobgen, folder: Path) -> None:
    said = jobgen("plan", *ON, "--why")
    assert "Memory formulas" in said.out
    assert "How the strategy was chosen" in said.out
    assert "arXiv" in said.out


def test_clusters_side_by_side_with_money(jobgen: Jobgen, folder: Path) -> None:
    clusters = folder / "clusters"
    clusters.mkdir()
    prices = {"rented": "gpu_hour: 2.5, currency: EUR", "own": "gpu_hour: 0.4, bought: 30000"}
    for name, price in prices.items():
        text = PROFILE.replace("NAME", name).replace("GPU", "H100-SXM5-80GB", 1)
        (clusters / f"{name}.yaml").write_text(text.replace("PRICE", price))
    said = jobgen("plan", "job.yaml", "--compare", "rented,own")
    assert said.code == Exit.DONE, said.err
    assert "rented" in said.out
    assert "EUR" in said.out
    assert "GPU-hours" in said.out
    data = json.loads(jobgen("plan", "job.yaml", "--compare", "rented,own", "--json").out)["data"]
    rented, own = data["compare"]["clusters"]
    assert rented["gpu_hours"] == pytest.approx(2 * 8 * 4, rel=1e-6)
    assert own["amount"] < rented["amount"]


def test_each_more_cluster_that_is_compared_takes_as_much_work(
    jobgen: Jobgen, folder: Path
) -> None:
    clusters = folder / "clusters"
    clusters.mkdir()
    _write(folder, "fsdp")

    def compare(number: int) -> None:
        names = [f"c{each}" for each in range(number)]
        for name in names:
            price = "price: {gpu_hour: 2.5, currency: EUR}"
            text = f"name: {name}\nextends: a100x16\n{price}\n"
            (clusters / f"{name}.yaml").write_text(text)
        assert jobgen("plan", *ON, "--compare", ",".join(names)).code == Exit.DONE

    compare(1)  # not counted: tables are read once
    few, more, most = (count_calls(lambda n=n: compare(n)) for n in (10, 20, 40))
    assert most - more < 2.2 * (more - few)


@pytest.mark.parametrize(
    ("names", "columns"),
    [
        ("dgx-h100", ["a100x16", "dgx-h100"]),
        ("dgx-h100,a100x16", ["a100x16", "dgx-h100"]),
        ("a100x16", ["a100x16"]),
    ],
)
def test_the_cluster_of_the_plan_is_the_first_column(
    jobgen: Jobgen, folder: Path, names: str, columns: list[str]
) -> None:
    for words in (ON, ("job.yaml",)):
        data = json.loads(jobgen("plan", *words, "--compare", names, "--json").out)["data"]
        assert [one["cluster"] for one in data["compare"]["clusters"]] == columns
        assert data["cluster"] == "a100x16"
        with (folder / "job.yaml").open("a") as file:
            file.write("cluster: a100x16\n")  # then without -c


def test_the_hint_of_what_does_not_fit_is_the_command_that_shows_what_would_help(
    jobgen: Jobgen, folder: Path
) -> None:
    _write(folder, "ddp")
    more = ("--set", "train.optimizer=adamw", "--set", "time=2h")
    for words in (["lint"], ["submit", "-n"]):
        said = jobgen(*words, *ON, *more)
        assert said.code == Exit.UNFIT
        text = " ".join((said.out + said.err).split())
        (command,) = re.findall(r"see what would help: jobgen ([^(]*--section memory)", text)
        shown = jobgen(*shlex.split(command))
        assert shown.code == Exit.UNFIT
        assert (
            "\nWhat would help (fits before tight, same GPUs before more, then fastest)\n"
            in shown.out
        )
        assert command.endswith(f"{shlex.join([*ON, *more])} --section memory")


@pytest.mark.parametrize("strategy", ["auto", "fsdp2"])
def test_a_mistyped_model_stands_at_its_line_with_the_nearest(
    jobgen: Jobgen, folder: Path, strategy: str
) -> None:
    _write(folder, strategy)
    text = (folder / "job.yaml").read_text().replace("/Llama-3.1", "/Lama-3.1")
    (folder / "job.yaml").write_text(text.replace("{model", "\n  {model"))
    line = text[: text.index("train:")].count("\n") + 2
    for words in (["lint", "job.yaml"], ["lint", *ON], ["plan", *ON]):
        said = jobgen(*words)
        shown = said.out + said.err
        assert f"job.yaml:{line}" in shown
        assert "did you mean meta-llama/Llama-3.1-8B?" in " ".join(shown.split())
        stops = strategy == "auto" and "-c" in words
        assert said.code == (Exit.INVALID if stops else Exit.DONE)


@pytest.mark.parametrize("words", [("lint", "job.yaml"), ("lint", *ON), ("plan", *ON)])
def test_what_set_gives_is_blamed_on_set(
    jobgen: Jobgen, folder: Path, words: tuple[str, ...]
) -> None:
    _write(folder, "3d")
    said = jobgen(*words, "--set", "train.pp=5")
    assert said.code == Exit.INVALID
    shown = said.out + said.err
    assert "--set train.pp: error[J233]: train: pp 5 does not divide the 32 layers" in shown
    assert "job.yaml:" not in shown


def test_a_model_like_no_other_is_only_noted(jobgen: Jobgen, folder: Path) -> None:
    text = JOB.replace("STRATEGY", "ddp").replace("meta-llama/Llama-3.1-8B", "acme/none-8b")
    (folder / "job.yaml").write_text(text)
    assert "note[J254]" in jobgen("lint", "job.yaml").out
    (folder / "job.yaml").write_text(text.replace("acme/none-8b", "small.json"))
    assert "J254" not in jobgen("lint", "job.yaml").out


def test_a_batch_that_only_a_divided_model_goes_with_is_warned_of(
    jobgen: Jobgen, folder: Path
) -> None:
    batch = ("--set", "train.seq_len=2048", "--set")
    said = jobgen("plan", *ON, *batch, "train.global_batch=7")
    assert said.code == Exit.DONE
    text = " ".join(said.out.split())
    assert "global_batch 7 leaves 1 data-parallel rank (tp 8 x pp 2); with 16, FSDP" in text
    assert "J253); set global_batch: 16" in text
    for total in (16, 32):
        assert "J253" not in jobgen("plan", *ON, *batch, f"train.global_batch={total}").out


def test_sizes_of_the_table_that_are_not_there_are_named(jobgen: Jobgen, folder: Path) -> None:
    said = jobgen("plan", *ON, "--nodes", "1,2,4", "--set", "train.global_batch=16")
    assert "\n  4: more than the 2 nodes of the cluster\n" in said.out
    fixed = ("--set", "train.strategy=fsdp2", "--set", "train.global_batch=16")
    said = jobgen("plan", *ON, "--nodes", "1,2,3", *fixed)
    assert "\n  3: left out; batch or parallel sizes do not divide evenly there\n" in said.out


@pytest.mark.parametrize("code", ["J251", "J253"])
def test_the_right_example_is_right_on_a_cluster(jobgen: Jobgen, folder: Path, code: str) -> None:
    head = JOB[: JOB.index("train:")]
    for text, bad in ((codes()[code].wrong, True), (codes()[code].right, False)):
        (folder / "job.yaml").write_text(f"{head}{text}\n")
        nodes = "nodes=1" if "# 8 GPUs" in text else "nodes=2"
        assert (code in jobgen("lint", *ON, "--set", nodes).out) == bad


def test_a_step_that_mostly_waits_says_so(jobgen: Jobgen, folder: Path) -> None:
    _write(folder, "fsdp2")
    small = (
        "train.model=mistralai/Mistral-7B-v0.1",
        "train.seq_len=1024",
        "train.activation_checkpointing=full",
        "gpus_per_node=4",
    )
    words = [word for one in small for word in ("--set", one)]
    said = jobgen("plan", "job.yaml", "-c", "rtx4090", *words)
    assert re.search(
        r" step \S+ s, \d\d % of it exposed communication over the network",
        " ".join(said.out.split()),
    )
    assert "exposed" not in jobgen("plan", *ON).out, "InfiniBand hides it"


def test_what_is_faster_than_auto_s_choice_is_shown_with_the_options_that_choose_it(
    jobgen: Jobgen, folder: Path
) -> None:
    _write(folder, "auto")
    on = ("plan", "job.yaml", "-c", "ethernet-25", "--set", "train.framework=megatron")
    text = " ".join(jobgen(*on).out.split())
    found = re.search(r"tokens/s ([0-9.]+) times the tokens/s with ((--set \S+ ?)+)", text)
    assert found, text
    rate = r"per step, ([0-9,]+) tokens/s"
    named = jobgen(*on, *found[2].split()).out
    before, after = (
        float(re.search(rate, " ".join(each.split()))[1].replace(",", ""))  # type: ignore[index]
        for each in (text, named)
    )
    assert after / before == pytest.approx(float(found[1]), abs=0.06)
    assert f"fastest that fits: {_find_row(jobgen, on)}" in jobgen(*on, "--section", "memory").out
    assert "tokens/s with" not in named
    assert "tokens/s with" not in jobgen("plan", *ON).out, "nothing is clearly faster"


def _find_row(jobgen: Jobgen, on: tuple[str, ...]) -> str:
    """The name of the row that ``--json`` has as faster."""
    estimate = json.loads(jobgen(*on, "--json").out)["data"]["estimate"]
    name: str = estimate["faster"]["name"]
    assert name in [row["name"] for row in estimate["strategies"]]
    return name


def test_a_tight_plan_is_warned_of(jobgen: Jobgen, folder: Path) -> None:
    _write(folder, "fsdp2")
    sets = ("--set", "train.seq_len=8192", "--set", "train.framework=none")
    said = jobgen("plan", *ON, *sets)
    assert said.code == Exit.DONE
    assert "\nMemory    tight: " in said.out
    text = " ".join(said.out.split())
    interval = re.search(r"of ([0-9.]+) GiB per GPU \(90 %: [0-9.]+\u2013([0-9.]+)\)", text)
    assert interval
    assert float(interval[1]) < float(interval[2]), "the upper end does not fit"
    assert not re.findall(r"up to [0-9.]+ (?!GPU-hours)", text), "the bound once"
    (warned,) = [
        one
        for one in json.loads(jobgen("plan", *ON, *sets, "--json").out)["warnings"]
        if one["code"] == "J251"
    ]
    assert re.search(r"^tight: needs about .* up to [0-9.]+ GiB may be needed$", warned["message"])
    section = jobgen("plan", *ON, *sets, "--section", "memory").out
    row = section[section.index("\n> fsdp2") + 1 :].splitlines()
    assert "may be needed" in section[: section.index("STRATEGY")]
    assert "may be needed" not in row[1], "its note stands in the verdict"


def test_a_tight_plan_has_what_makes_it_fit_and_may_be_submitted(
    jobgen: Jobgen, folder: Path
) -> None:
    _write(folder, "fsdp")
    sets = ("--set", "train.micro_batch=2")
    shown = jobgen("plan", *ON, *sets, "--section", "memory").out
    assert "\n  tight: " in shown
    title = "What would help (fits before tight, same GPUs before more, then fastest)"
    assert f"{title}\n  1  train." in shown
    said = json.loads(jobgen("plan", *ON, *sets, "--json").out)
    levers = said["data"]["estimate"]["levers"]
    assert {lever["verdict"] for lever in levers} == {"fits"}
    slower = [lever["slower_pct"] for lever in levers]
    assert slower == sorted(slower), "what costs no time comes first"
    tried = [
        word for change in levers[0]["changes"] for word in ("--set", change.replace(": ", "="))
    ]
    assert "\nMemory    fits: " in jobgen("plan", *ON, *sets, *tried).out
    assert "\nNext: jobgen submit job.yaml" in jobgen("plan", *ON, *sets).out


def test_a_micro_batch_that_follows_from_the_global_batch_is_on_the_screen(
    jobgen: Jobgen, folder: Path
) -> None:
    _write(folder, "fsdp2")
    sets = ("--set", "train.global_batch=64", "--set", "train.micro_batch=null")
    shown = " ".join(jobgen("plan", *ON, *sets).out.split())
    assert "micro_batch 4 (from global_batch)" in shown


def test_every_row_that_was_compared_is_shown_or_counted(jobgen: Jobgen, folder: Path) -> None:
    _write(folder, "auto")
    sets = ("--set", "train.micro_batch=4", "--set", "train.seq_len=8192")
    text = jobgen("plan", *ON, *sets, "--section", "memory").out
    (left,) = re.findall(r"compared as well: (\d+) more rows; -v shows them", text)
    every = jobgen("plan", *ON, *sets, "--section", "memory", "-v").out
    assert "compared as well" not in every
    assert _count_rows(every) == _count_rows(text) + int(left)
    said = json.loads(jobgen("plan", *ON, *sets, "--json").out)
    assert len(said["data"]["estimate"]["strategies"]) == _count_rows(every)


def _count_rows(text: str) -> int:
    table = text.partition("STRATEGY")[2].partition("\n\n")[0]
    return len(re.findall(r"^[> ] [a-z0-9].* GiB +(?:yes|no|tight) ", table, re.M))


def test_the_first_line_names_the_host_memory_where_that_does_not_fit(
    jobgen: Jobgen, folder: Path
) -> None:
    _write(folder, "fsdp2")
    sets = ("train.model=meta-llama/Llama-3.1-405B", "train.offload=both", "nodes=1")
    sets = (*sets, "train.activation_checkpointing=full")
    said = jobgen("plan", *ON, *(word for each in sets for word in ("--set", each)))
    assert said.code == Exit.UNFIT
    first, second = said.out.partition("\nMemory    ")[2].splitlines()[:2]
    amount = r"needs \d+\.\d TiB of \d\.\d TiB host memory per node"
    assert re.fullmatch(f"does not fit: {amount}", first)
    assert re.match(r" {10}needs \S+ of 79\.2 GiB per GPU \(90 %: ", second)


@pytest.mark.parametrize(
    ("mem", "line"),
    [
        ("", r"also needs \d+\.\d GiB of host memory per node \(nodes\.mem is not set\)"),
        (", mem: 200GiB", r"also needs \d+\.\d GiB of 200\.0 GiB host memory per node"),
        (", mem: 1TiB", ""),
    ],
)
def test_what_fits_by_offloading_names_the_host_memory(
    jobgen: Jobgen, folder: Path, mem: str, line: str
) -> None:
    nodes = f"{{count: 1, gpus_per_node: 2, gpu: RTX-4090-24GB, intra: pcie{mem}}}"
    (folder / "server.yaml").write_text(f"name: server\nextends: local\nnodes: {nodes}\n")
    _write(folder, "zero3")
    train = ("offload=optimizer", "activation_checkpointing=full", "seq_len=2048")
    sets = ("nodes=1", "gpus_per_node=2", *(f"train.{each}" for each in train))
    said = jobgen("plan", "job.yaml", "-c", "./server.yaml", *(f"--set={s}" for s in sets))
    assert "\nMemory    fits: needs " in said.out, said.err
    assert ("also needs" in said.out) == bool(line)
    assert re.search(line, said.out)


@pytest.mark.parametrize("verb", ["plan", "submit --dry-run", "render -o out"])
def test_warnings_in_json_are_those_of_the_screen_and_notes_come_last(
    jobgen: Jobgen, folder: Path, verb: str
) -> None:
    _write(folder, "fsdp2")
    name, *more = verb.split()
    asked = (name, *ON, *more, "--set", "train.seq_len=8192")
    found = json.loads(jobgen(*asked, "--json").out)["warnings"]
    severities = [problem["severity"] for problem in found]
    assert severities == sorted(severities, key="warning note".index)
    if name == "plan":
        shown = " ".join(jobgen(*asked, "--section", "checks").out.split())
        assert severities.count("warning") == shown.count("[warn]") > 0
        assert severities.count("note") == shown.count("[note]")
    assert "J251" in {problem["code"] for problem in found}, "a check that warns"


@pytest.mark.parametrize(
    ("network", "told"),
    [
        ("", "200 Gb/s per GPU between nodes (the profile sets no network.nics or"),
        (", nics: 4", "100 Gb/s per GPU between nodes (the profile sets no network.nic_gbps)"),
        (", nic_gbps: 400", "400 Gb/s per GPU between nodes (the profile sets no network.nics)"),
        (", nics: 8, nic_gbps: 200", ""),
    ],
)
def test_a_bandwidth_that_the_profile_does_not_set_is_named_as_assumed(
    jobgen: Jobgen, folder: Path, network: str, told: str
) -> None:
    (folder / "clusters").mkdir()
    text = PROFILE.replace("NAME", "mine").replace("GPU", "H100-SXM5-80GB", 1)
    text = text.replace("price: {PRICE}\n", "").replace("infiniband}", f"infiniband{network}}}")
    (folder / "clusters" / "mine.yaml").write_text(text)
    on = ("job.yaml", "-c", "mine", "--set", "train.strategy=fsdp2")
    shown = " ".join(jobgen("plan", *on, "--section", "memory").out.split())
    assert ("assumed for the step: " in shown) is bool(told)
    assert told in shown
    data = json.loads(jobgen("plan", *on, "--json").out)["data"]["estimate"]
    assert (data["assumed_network"] or "").startswith(told)
    alone = jobgen("plan", *on, "--set", "nodes=1", "--section", "memory").out
    assert "assumed for the step" not in alone, "nothing is sent between nodes"


def test_a_pipeline_bubble_is_named(jobgen: Jobgen, folder: Path) -> None:
    _write(folder, "3d")
    sets = ("train.framework=megatron", "train.pp=4", "train.tp=4", "train.global_batch=4")
    said = jobgen("plan", *ON, *(word for each in sets for word in ("--set", each)))
    assert re.search(r"step \S+ m?s, \d\d % of it pipeline bubble, MFU", " ".join(said.out.split()))
    assert "bubble" not in jobgen("plan", *ON, "--set", "train.strategy=fsdp2").out


@pytest.mark.parametrize(
    ("model", "following"),
    [
        ("train.py:build, batch: train.py:batch", "jobgen plan job.yaml -c a100x16 --measure"),
        ("meta-llama/Lama-3.1-8B", "edit job.yaml:7, then: jobgen plan job.yaml -c a100x16"),
        ("acme/none-8b", "jobgen submit job.yaml -c a100x16"),
    ],
)
def test_next_leads_to_an_estimate(
    jobgen: Jobgen, folder: Path, model: str, following: str
) -> None:
    text = JOB.replace("STRATEGY", "fsdp2").replace("meta-llama/Llama-3.1-8B", model)
    (folder / "job.yaml").write_text(text)
    assert jobgen("plan", *ON).out.splitlines()[-1] == f"Next: {following}"


OWN = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1024, 1024) for _ in range(3))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.mean()

def build(): return Net()
def batch(micro_batch): return torch.randn(micro_batch, 1 << 18, 1024)
"""


@pytest.mark.slow
@pytest.mark.train
def test_next_measures_an_own_model_with_the_smaller_batch(
    jobgen: Jobgen, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    (folder / "train.py").write_text(OWN)
    text = JOB.replace("STRATEGY", "ddp, precision: fp32, framework: none")
    text = text.replace("meta-llama/Llama-3.1-8B", "train.py:build, batch: train.py:batch")
    (folder / "job.yaml").write_text(text.replace("micro_batch: 1", "micro_batch: 64"))
    said = jobgen("plan", *ON, "--measure")
    assert said.code == Exit.UNFIT, said.out + said.err
    following = said.out.splitlines()[-1].removeprefix("Next: jobgen ")
    assert re.fullmatch(
        r"plan job.yaml -c a100x16 --set train.micro_batch=\d+ "
        r"--set train.gradient_accumulation=\d+ --measure",
        following,
    )
    assert "memory is not estimated" not in jobgen(*shlex.split(following)).out


def test_a_page_is_written(jobgen: Jobgen, folder: Path) -> None:
    said = jobgen("plan", *ON, "--html", "page.html", "--nodes", "1,2")
    assert said.code == Exit.DONE
    page = (folder / "page.html").read_text()
    HTMLParser().feed(page)
    assert "llama on a100x16" in page


@pytest.mark.parametrize("path", ["not/there.x", "/dev/full"])
def test_a_file_that_cannot_be_written_is_named(jobgen: Jobgen, folder: Path, path: str) -> None:
    said = jobgen("plan", *ON, "--html", path)
    assert said.code == Exit.USAGE
    assert f"{path}: cannot be written" in said.err
    assert "bug" not in said.err


def test_of_an_unknown_model_it_says_why_nothing_is_estimated(jobgen: Jobgen, folder: Path) -> None:
    text = JOB.replace("STRATEGY", "ddp").replace("meta-llama/Llama-3.1-8B", "acme/none-8b")
    (folder / "job.yaml").write_text(text)
    said = jobgen("plan", *ON)
    assert said.code == Exit.DONE
    assert "not estimated: unknown sizes of 'acme/none-8b'" in said.out
    nothing = jobgen("plan", *ON, "--html", "page.html")
    assert nothing.code == Exit.USAGE
    assert "nothing to draw: unknown sizes" in nothing.err


def test_numbers_of_nodes_are_numbers(jobgen: Jobgen, folder: Path) -> None:
    said = jobgen("plan", *ON, "--nodes", "1,x")
    assert said.code == Exit.USAGE
    assert "1,2,4,8" in said.err


def test_more_nodes_than_the_profile_has_can_be_estimated_as_the_hint_has_it(
    jobgen: Jobgen, folder: Path
) -> None:
    (folder / "job.yaml").write_text(JOB.replace("STRATEGY", "auto").replace("2", "4", 1))
    said = jobgen("plan", *ON)
    assert "nodes: 4, but a100x16 has 2" in said.err
    found = re.search(r"plan with ((--\S+ \S+ ?)+)", " ".join(said.err.split()))
    assert found, said.err
    assert re.search(r"^4 +32 .* yes ", jobgen("plan", *ON, *found[1].split()).out, re.M)
    (folder / "job.yaml").write_text("name: a\nnodes: 4\ntime: 4h\nrun: train.py\n")
    assert "plan with" not in jobgen("plan", *ON).err, "nothing is estimated"


def test_a_plan_with_all_strategies_is_quick(jobgen: Jobgen, folder: Path) -> None:
    jobgen("plan", *ON)
    assert count_calls(lambda: jobgen("plan", *ON)) < 150_000


@pytest.mark.train("torch", "transformers")
@pytest.mark.slow
def test_the_exact_count_is_that_of_transformers(jobgen: Jobgen, folder: Path) -> None:
    said = jobgen("plan", *ON, "--exact")
    assert said.code == Exit.DONE, said.err
    assert "8,030,261,248 parameters, built by transformers" in said.out
    assert "the planner counts the same" in " ".join(said.out.split())


def test_a_model_that_nobody_knows_cannot_be_counted(jobgen: Jobgen, folder: Path) -> None:
    text = JOB.replace("STRATEGY", "ddp").replace("meta-llama/Llama-3.1-8B", "acme/none-8b")
    (folder / "job.yaml").write_text(text)
    said = jobgen("plan", *ON, "--exact")
    assert said.code == Exit.MISSING
    assert "unknown sizes of 'acme/none-8b'" in said.err


def test_assumed_values_are_marked(jobgen: Jobgen, folder: Path) -> None:
    model = "meta-llama/Llama-3.1-8B"
    for more, marked in (
        ("", {"seq_len", "micro_batch", "optimizer"}),
        (", seq_len: 4096, optimizer: adamw", {"micro_batch"}),
        (", micro_batch: 2, optimizer: lion, seq_len: 4096", set()),
    ):
        text = JOB[: JOB.index("train:")] + f"train: {{model: {model}, strategy: fsdp2{more}}}\n"
        (folder / "job.yaml").write_text(text)
        shown = " ".join(jobgen("plan", *ON).out.split())
        assert ("seq_len 2048 (assumed)" in shown) == ("seq_len" in marked)
        assert ("micro_batch 1 (assumed)" in shown) == ("micro_batch" in marked)
        section = " ".join(jobgen("plan", *ON, "--section", "memory").out.split())
        assert ("optimizer adamw (assumed)" in section) == ("optimizer" in marked)
        why = jobgen("plan", *ON, "--why").out
        assert ("optimizer is not set; assuming adamw" in why) == ("optimizer" in marked)
        data = json.loads(jobgen("plan", *ON, "--json").out)["data"]["estimate"]
        guessed = {"loss", "compiled", "gradient_accumulation"}
        found = {key for one in data["strategies"] for key in one["assumed"]}
        assert found == marked | guessed


def test_what_run_says_otherwise_stands_in_plan_lint_and_submit(
    jobgen: Jobgen, folder: Path
) -> None:
    text = JOB.replace("train.py", "train.py --per_device_train_batch_size 4")
    (folder / "job.yaml").write_text(text.replace("STRATEGY", "fsdp2"))
    for words in (["plan"], ["lint"], ["submit", "-n"]):
        said = jobgen(*words, *ON)
        assert said.code == Exit.DONE
        shown = " ".join((said.out + said.err).split())
        assert "run: --per_device_train_batch_size 4, but train.micro_batch is 1" in shown
        assert "set micro_batch: 4 under train:" in shown
        assert "train.strategy has no effect: train.py reads neither" in shown
    alone = jobgen("lint", ON[0])
    assert alone.code == Exit.DONE
    assert "train.strategy has no effect: train.py reads neither" in alone.out
    (folder / "train.py").write_text("from os import environ; environ['JOBGEN_STRATEGY']")
    assert "no problems" in jobgen("lint", ON[0]).out


def test_auto_divides_the_model_as_the_job_says(jobgen: Jobgen, folder: Path) -> None:
    said = jobgen("plan", *ON, "--set", "train.tp=2")
    assert said.code == Exit.DONE, said.err
    assert "Strategy  FSDP2, tp 2 (auto); step " in said.out


@pytest.mark.parametrize("strategy", ["fsdp2", "auto"])
def test_impossible_sizes_of_a_config_file_are_refused_at_their_line(
    jobgen: Jobgen, folder: Path, strategy: str
) -> None:
    _write(folder, strategy)
    sizes = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 7}
    sizes |= {"intermediate_size": 96, "vocab_size": 100}
    text = json.dumps({"model_type": "llama", **sizes}, indent=1)
    (folder / "config.json").write_text(text)
    for call in (("plan", *ON), ("lint", *ON), ("lint", "job.yaml")):
        said = jobgen(*call, "--set", "train.model=config.json")
        assert said.code == Exit.INVALID, call
        shown = said.out + said.err
        place = "config.json:5:2: error[J138]: num_attention_heads 7 does not divide hidden_size 64"
        assert place in shown
        assert '5 |  "num_attention_heads": 7,\n' in shown
        assert "^ set num_attention_heads: 8, or head_dim" in shown


def test_the_batch_of_an_own_deepspeed_configuration_is_planned_with(
    jobgen: Jobgen, folder: Path
) -> None:
    keys = "framework: hf-trainer, strategy: zero2, config: ds.json"
    train = f"{{model: meta-llama/Llama-3.2-1B, {keys}}}"
    text = "name: own\nnodes: 1\ngpus_per_node: 8\ntime: 1h\nrun: train.py\n"
    (folder / "job.yaml").write_text(f"{text}train: {train}\n")
    batches = {}
    for micro in (3, "auto"):
        values = {"train_micro_batch_size_per_gpu": micro, "gradient_accumulation_steps": 2}
        values |= {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}
        (folder / "ds.json").write_text(json.dumps(values, indent=1))
        estimate = json.loads(jobgen("plan", *ON, "--json").out)["data"]["estimate"]
        (own,) = [one for one in estimate["strategies"] if one["chosen"]]
        batches[micro] = own["batch"]["micro"], own["batch"]["accumulation"]
        assert ("micro_batch" in own["assumed"]) is (micro == "auto")
        where = "ds.json:2 sets 3" if micro == 3 else "assuming 8"
        assert f"micro_batch is not set; {where}" in estimate["doubts"]
    assert batches == {3: (3, 2), "auto": (8, 1)}
