"""The measurement of a user's model as its own Python runs it: what goes wrong, and where."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DRIVER = """
import json, sys, torch
from jobgen.payload.measure_model import __main__ as program, training_step

base = {"workdir": sys.argv[1], "words": {}, "modes": ["fp32"], "classes": [],
        "min_params": None, "shards": 0}
for line in json.loads(sys.argv[2]):
    try:
        words = dict(zip(("model", "batch", "modes"), line))
        report = program.measure({**base, **words})
        assert torch.get_default_device().type == "cpu"
    except program.Failed as failure:
        report = program.describe_failure(failure)
    print("report " + json.dumps(report))
"""
PROGRAM = """\
import copy
import os, torch; from torch.utils.checkpoint import checkpoint
from torch import nn

class Net(nn.Module):
    def __init__(self, branches=False):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.branches = branches
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        if self.branches and x.sum() > 0:
            return x.mean()
        return x.detach() if x.shape[0] == 3 else x

class Skipping(Net):
    def forward(self, x):
        first = self.layers[0](x)
        return self.layers[2](self.layers[1](first) + first)

class Backwards(Net):
    def forward(self, x):
        for layer in reversed(self.layers):
            x = layer(x)
        return x

class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(8, 8)
    def forward(self, x):
        x = x.float()
        if x.dtype != self.last.weight.dtype: raise RuntimeError("mixed types")
        return self.last(x).mean()

class Written(Net):
    "As programs for a GPU are: layers are copies, and small tensors are read."
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(copy.deepcopy(self.layers[0]) for _ in range(3))
        self.rates = [each.item() for each in torch.linspace(0, 0.1, 3)]
        nn.init.trunc_normal_(self.layers[0].weight)
    def forward(self, x, mask):
        if not mask.all() or (x[mask].shape[0] != 2):
            raise ValueError("padded")
        with torch.autocast("cuda", enabled=False):
            return super().forward(x)

class Asking(Net):
    def forward(self, x):
        assert x.is_cuda
        return self.layres[0](x)

class Misspelt(Net):
    def forward(self, x):
        return self.layres[0](x)

def build(): return Net()
def build_written(): return torch.compile(Written().half().cuda().to(torch.float32))
def build_narrow(): return Net().to("cuda", torch.bfloat16)
def build_tied():
    net = Net()
    net.layers[2].weight = net.layers[0].weight
    return net.double()
def build_skipping(): return Skipping()
def build_backwards(): return Backwards()
def build_wide(): return Wide()
def build_branches(): return Net(branches=True)
def build_nothing(): return 5
def build_wrongly(): return unknown_name
def batch(): return torch.randn(2, 8)
def batch_with_mask():
    ones = torch.ones(3, dtype=torch.bool, device="cuda")
    ones[2:] = False
    return torch.randn(2, 8).cuda(), ones[ones]
def batch_of_padding(): return torch.randn(2, 8), torch.tensor([True, False])
def batch_in_16_bits(): return torch.randn(2, 8).to("cuda:0", torch.bfloat16)
def batch_in_64_bits(): return torch.randn(2, 8).double()
def batch_of_text(): return "text"
def batch_of_wrong_width(): return torch.randn(2, 9)
def batch_without_gradient(): return torch.randn(3, 8)
def build_on_gpu():
    torch.cuda.set_device(0)
    torch.set_default_device("cuda")
    net = Net().to(torch.device(torch.cuda.current_device()))
    net.rates = torch.zeros(3).pin_memory().to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return net
def batch_on_gpu():
    with torch.device(0) as device:
        return isinstance(device, torch.device) and torch.ones(2, 8) + torch.zeros(8, device=0)
def build_asking(): return Asking()
def build_misspelt(): return Misspelt()
def build_by_capability():
    return Net() if torch.cuda.get_device_capability()[0] >= 8 else Wide()
def build_by_properties():
    return Net() if torch.cuda.get_device_properties(0).name else Wide()
def build_asserting():
    assert torch.cuda.is_available()
def build_by_rank():
    return Net().to(int(os.environ["LOCAL_RANK"]))
def batch_of_other_words(): return {"y": torch.randn(2, 8)}
def build_dropping():
    return nn.Sequential(nn.TransformerEncoderLayer(8, 2, 8, 0.1, batch_first=True))
def batch_of_sequences(): return torch.randn(2, 16, 8)
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight
    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight.T, x.T @ grad
class Saving(Net):
    "Its layers are checkpointed by its own code, in both of torch's kinds."
    def __init__(self, saves):
        super().__init__()
        self.saves = saves
    def forward(self, x):
        for reentrant, layer in enumerate((self.layers[0], self.layers[1])):
            part = lambda y, w=layer.weight: torch.relu(Doubled.apply(y @ w, w)) @ w
            x = checkpoint(part, x, use_reentrant=bool(reentrant)) if self.saves else part(x)
        return x
def build_saving(): return Saving(True)
def build_keeping(): return Saving(False)
print("noise of the user's")
"""
FAILURES: dict[tuple[str, str], tuple[str, str, str, int | None]] = {
    ("build_modle", "batch"): ("function", "model", "no function 'build_modle'", None),
    ("build", "batches"): ("function", "batch", "no function 'batches'", None),
    ("build_nothing", "batch"): ("type", "model", "returned int, not a torch.nn.Module", None),
    ("build", "batch_of_text"): ("type", "batch", "returned str without tensors", None),
    ("build_wrongly", "batch"): ("program", "model", "NameError: name 'unknown_name'", 71),
    ("build_branches", "batch"): ("data", "model", "DataDependentOutputException", 13),
    ("build", "batch_of_wrong_width"): ("step", "model", "the forward pass: ", 12),
    ("build_written", "batch_of_padding"): ("step", "model", "ValueError: padded", 46),
    ("build_asking", "batch"): ("gpu", "model", "AssertionError", 52),
    ("build_misspelt", "batch"): ("line", "model", "no attribute 'layres'", 57),
    ("build_by_capability", "batch"): ("gpu", "model", "AssertionError: Torch not", 97),
    ("build_by_properties", "batch"): ("gpu", "model", "AssertionError: Torch not", 99),
    ("build_asserting", "batch"): ("gpu", "model", "AssertionError", 101),
    ("build_by_rank", "batch"): ("variable", "model", "KeyError: 'LOCAL_RANK'", 103),
    ("build", "batch_of_other_words"): ("call", "batch", "own.py:batch_of_other_words ret", None),
    ("build", "batch_without_gradient"): ("loss", "model", "nothing that has a gradient", None),
}
UNDERLINED = {
    *("unknown_name", "x.sum() > 0", "layer(x)", 'raise ValueError("padded")', "assert x.is_cuda"),
    *("self.layres", "torch.cuda.get_device_capability()", "torch.cuda.get_device_properties(0)"),
    *("assert torch.cuda.is_available()", 'os.environ["LOCAL_RANK"]'),
}


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What is reported of each pair of functions, and at the end of one that can be measured."""
    folder = tmp_path_factory.mktemp("program").resolve()
    (folder / "own.py").write_text(PROGRAM)
    pairs: list[list[Any]] = [["own.py:build_wide", "own.py:batch", ["autocast", "16-bit"]]]
    others = [("build_saving", "batch"), ("build_keeping", "batch")]
    others += [("build_dropping", "batch_of_sequences"), ("build_on_gpu", "batch_on_gpu")]
    others += [("build_written", "batch_with_mask"), ("build_narrow", "batch_in_16_bits")]
    others += [("build_tied", "batch_in_64_bits")]
    others += [(f"build_{name}", "batch") for name in ("skipping", "backwards")]
    pairs += [
        [f"own.py:{one}" for one in pair] for pair in (*FAILURES, *others, ("build", "batch"))
    ]
    command = [sys.executable, "-c", DRIVER, str(folder), json.dumps(pairs)]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return [json.loads(line.partition(" ")[2]) for line in lines if line.startswith("report ")]


def test_every_failure_has_its_kind_its_key_and_its_line(reports: list[dict[str, Any]]) -> None:
    for expected, report in zip(FAILURES.values(), reports[1:], strict=False):
        kind, key, words, line = expected
        assert (report["failed"], report["key"]) == (kind, key), report
        assert words in report["message"]
        if line is None:
            assert report["place"] is None
            continue
        file, row, first, end = report["place"]
        assert (file, row) == ("own.py", line)
        under = PROGRAM.split("\n")[line - 1][first - 1 : end - 1]
        assert under in UNDERLINED
    assert "build" in reports[1]["known"]


def test_a_model_that_casts_by_itself_is_measured_under_autocast_alone(
    reports: list[dict[str, Any]],
) -> None:
    report = reports[0]
    assert [trace["mode"] for trace in report["traces"]] == ["autocast"]
    assert report["unmeasured"].startswith("the forward pass: RuntimeError: mixed")
    assert report["width"] == 4


def test_layers_of_a_list_are_units(reports: list[dict[str, Any]]) -> None:
    report = reports[-1]
    assert (report["params"], report["trained"], report["micro"]) == (216, 216, 2)
    assert [unit["name"] for unit in report["units"]] == ["layers.0", "layers.1", "layers.2"]
    assert {unit["params"] for unit in report["units"]} == {72}
    assert [trace["recompute"] for trace in report["traces"]] == ["none", "full"]
    every = report["traces"][0]["points"]
    assert every[0][0] == 1.0
    # fewer gradients can be a peak only where more is held beside them
    assert [sum(p[1:]) for p in every] == sorted(sum(p[1:]) for p in every)


def test_only_layers_that_run_one_after_another_are_stages(reports: list[dict[str, Any]]) -> None:
    chains = [report["traces"][0]["chain"] for report in reports[-3:]]
    assert [chain["broken"] for chain in chains] == [
        "a layer takes more than the one before it returns",
        "its layers do not run one after another, each once",
        "",
    ]
    assert chains[-1]["parameters"] == [[0, 0, 0], *[[72, 72, 0]] * 3, [0, 0, 0]]
    assert [sent for sent, _ in chains[-1]["sent"]] == [64] * 4 + [0]


def test_a_model_is_measured_as_it_is_written_for_a_gpu(reports: list[dict[str, Any]]) -> None:
    chosen, written, narrow, tied, plain = (reports[each] for each in (-7, -6, -5, -4, -1))
    assert chosen["traces"] == plain["traces"], chosen
    mask = 2
    kept = [report["traces"][0]["points"][-1][1] for report in (written, plain)]
    assert kept[0] == kept[1] + mask
    assert (written["params"], written["width"]) == (plain["params"], 4)
    assert (narrow["params"], narrow["width"]) == (plain["params"], 2)
    assert (tied["params"], tied["width"]) == (plain["params"] - 8 * 8, 8)


def test_scores_that_only_a_cpu_keeps_for_dropout_are_told_apart(
    reports: list[dict[str, Any]],
) -> None:
    kept, without = reports[-8]["traces"]
    assert (kept["flash"], without["flash"]) == (False, True)
    scores = 2 * 2 * 16 * 16 * 4  # of two samples and heads, in fp32: the softmax and its dropout
    assert kept["kept"] - without["kept"] > 2 * scores
    assert [each["flash"] for each in reports[-1]["traces"]] == [False] * 2


def test_what_a_layer_computes_is_counted_once_for_equal_layers(
    reports: list[dict[str, Any]],
) -> None:
    plain = reports[-1]["traces"][0]["costs"]
    assert plain["order"][2] == plain["order"][3]
    forward = 2 * 2 * 8 * 8  # two samples through a matrix
    # the first layer's input has no gradient
    assert [sum_flops(plain, back) for back in (0, 1)] == [3 * forward, 5 * forward]


def sum_flops(costs: dict[str, Any], back: int) -> int:
    """FLOPs of a pass."""
    rows = [row for kind in costs["order"] for row in costs["kinds"][kind][back]]
    return sum(row[2] * row[5] for row in rows)


def test_what_the_program_computes_again_itself_is_no_work_of_the_model(
    reports: list[dict[str, Any]],
) -> None:
    saving, keeping = (reports[each]["traces"][0]["costs"] for each in (-10, -9))
    assert sum_flops(saving, 0) == sum_flops(keeping, 0)
    assert keeping["recomputed"] == 0
    assert saving["recomputed"] > sum_flops(keeping, 0) // 2
    assert sum_flops(saving, 1) - saving["recomputed"] == sum_flops(keeping, 1)
    plain, again = (trace["costs"] for trace in reports[-1]["traces"])
    assert sum_flops(again, 1) - again["recomputed"] == sum_flops(plain, 1)


def test_gradients_that_are_labelled_otherwise_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PROGRAM)
    blind = (
        "for each in model.parameters(): "
        "tracker._param_to_grad_hook_handles[each] = points._NoHook(), points._NoHook()"
    )
    driver = DRIVER.replace(
        "base = {",
        "from jobgen.payload.measure_model import memory_points as points\n"
        f"def spare(tracker, model):\n    {blind}\n"
        "training_step.spare_frozen = spare\nbase = {",
    )
    pairs = json.dumps([["own.py:build", "own.py:batch"]])
    command = [sys.executable, "-c", driver, str(tmp_path.resolve()), pairs]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    report = json.loads(done.stdout.splitlines()[-1].partition(" ")[2])
    assert report["failed"] == "labels"
    assert report["message"] == "MemTracker counts 0 B of gradients; the model has 864 B"
