"""What plan shows of the planner's answers: the bar, the strategies, what would help, scaling."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.cli.layout import measure
from jobgen.cli.output import Ink
from jobgen.cli.page import page_tables
from jobgen.cli.page.shapes import PageTable
from jobgen.cli.screens import advice, memory, offers, remedies, scaling, strategies
from jobgen.cli.screens.stack import choose_letters, divide_cells, draw_bar
from jobgen.strategy.choice.assumptions import list_assumptions
from jobgen.strategy.choice.offer import Advice, Offer
from jobgen.strategy.choice.price_comparison import list_break_evens
from jobgen.strategy.estimate import GIB, Component, Moment, Verdict, Volume
from jobgen.strategy.setup import Adapters
from tests.cli import advised as made

GOLDEN = Path(__file__).parent / "advice"
SGR = re.compile("\x1b\\[[0-9;]*m")
LIMIT = 80 * GIB


def drawn(width: int, *, colour: bool = False, answer: Advice = made.ADVICE) -> str:
    """Everything that is said, at a width."""
    ink = Ink(width=width, colour=colour)
    return (
        advice.screen(answer, ink, reasons=True)
        + "\n"
        + advice.screen(made.NONE, ink)
        + "\n"
        + offers.screen(made.OFFERS, 1.3e9, ink)
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_whole_answer_is_as_it_was_looked_at(width: int, pytestconfig: pytest.Config) -> None:
    """``--golden-update`` writes it anew; look at the difference."""
    file = GOLDEN / f"{width}.txt"
    if pytestconfig.getoption("--golden-update"):
        file.write_text(drawn(width), encoding="utf-8")
    assert drawn(width) == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [40, 41, 52, 60, 72, 80, 99, 100, 120])
@pytest.mark.parametrize("colour", [False, True])
def test_no_line_is_wider_than_the_screen(width: int, colour: bool) -> None:
    for line in SGR.sub("", drawn(width, colour=colour)).splitlines():
        assert measure(line) <= width, line


def test_colours_change_nothing_but_colours() -> None:
    assert SGR.sub("", drawn(80, colour=True)) == drawn(80)


# the bar

AMOUNTS = st.lists(st.floats(0, 400, allow_subnormal=False), min_size=1, max_size=14)


@given(AMOUNTS, st.floats(1, 200), st.integers(20, 200), st.booleans())
def test_a_bar_is_never_wider_than_asked_and_each_part_has_its_share(
    gib: list[float], limit: float, width: int, colour: bool
) -> None:
    parts = [made.component(f"part{i}", size) for i, size in enumerate(gib)]
    text = SGR.sub("", draw_bar(parts, limit * GIB, width, Ink(width=width, colour=colour)))
    assert measure(text) == width
    over = sum(p.bytes for p in parts) > limit * GIB
    cells = width - 2 - over
    whole = max(sum(gib), limit)
    for letter, size in zip(choose_letters(parts), gib, strict=True):
        if letter != "?":
            assert abs(text.count(letter) - size / whole * cells) <= 1 + 1e-6
    filled = text.strip("[]").replace("|", "").rstrip(".")
    assert abs(len(filled) - sum(gib) / whole * cells) <= 0.5 + 1e-6
    assert text.endswith("]" if over else "|")


@given(AMOUNTS, st.integers(1, 300))
def test_cells_sum_to_the_rounded_share_of_the_sum(amounts: list[float], cells: int) -> None:
    whole = sum(amounts) * 1.25 + 1
    found = divide_cells(amounts, whole, cells)
    assert sum(found) == pytest.approx(sum(amounts) / whole * cells, abs=0.5 + 1e-6)
    assert all(abs(n - a / whole * cells) <= 1 + 1e-6 for n, a in zip(found, amounts, strict=True))


def test_what_lies_beyond_the_limit_is_shown_beyond_it() -> None:
    parts = [made.component("params", 80), made.component("activations", 80)]
    assert draw_bar(parts, LIMIT, 43, Ink()) == f"[{'p' * 20}|{'a' * 20}]"
    assert draw_bar(parts[:1], 2 * LIMIT, 42, Ink()) == f"[{'p' * 20}{'.' * 20}|"
    painted = draw_bar(parts, LIMIT, 43, Ink(colour=True))
    assert f"\x1b[31m{'a' * 20}\x1b[0m]" in painted


def test_every_part_has_a_letter_of_its_own() -> None:
    known = [made.component(name, 1) for name in made.KINDS]
    assert len(set(choose_letters(known))) == len(known)
    more = [*known, made.component("peft", 1), made.component("αβ", 1)]
    assert len(set(choose_letters(more))) == len(more)


@given(st.lists(st.floats(0.001, 90), min_size=11, max_size=11), st.integers(40, 120))
def test_every_part_is_named_with_its_letter_however_small(gib: list[float], width: int) -> None:
    option = made.FSDP._replace(memory=made.memory(*gib))
    answer = made.ADVICE._replace(options=(option,), chosen=option)
    text = memory.screen(answer, Ink(width=width))
    for letter, part in zip(choose_letters(option.memory.components), made.KINDS, strict=True):
        assert re.search(rf"(^|[ ]){letter} {part} +(<0\.1|\d+(\.\d)?)", text, re.M)
    assert f"= {memory.to_gib(option.memory.nvidia_smi)} GiB" in text


def test_a_part_that_is_not_there_is_not_named() -> None:
    assert " master " not in memory.screen(made.ADVICE, Ink())


# sentences


def shown(**changed: Any) -> str:
    """The section of one option, on long lines."""
    option = made.FSDP._replace(**changed)
    answer = made.ADVICE._replace(options=(option,), chosen=option)
    return memory.screen(answer, Ink(width=400))


def test_the_metric_the_interval_and_the_moment_are_said() -> None:
    text = shown()
    assert "expected 44.3 (33.3\u201359.0) allocated, 46.9 (35.2\u201362.4) reserved, " in text
    assert "48.3 (45.4\u201351.2) in nvidia-smi; needs 47.1 of 80.0 GiB: allocated, " in text
    assert "; needs 47.1 of 80.0 GiB: allocated, 3 % cache, CUDA context; " in text
    assert "peak during the backward pass" in text
    for moment in get_args(Moment):
        assert "; peak during " in shown(memory=made.FSDP.memory._replace(moment=moment))


def test_each_verdict_says_by_how_much_or_why() -> None:
    assert "\n  fits: 41 % free\n" in shown()
    wide = made.memory(*[60 / 9] * 9, 1.4)
    end = f"21 % free, but up to {wide.ample / GIB:.1f} GiB may be needed\n"
    assert f"\n  tight: {end}" in shown(memory=wide, verdict="tight")
    assert "does not fit: 87.4 GiB over the limit (109 %); too many states\n" in shown(
        memory=made.DDP.memory, verdict="no", note="too many states"
    )
    assert "unknown: an odd model\n" in shown(verdict="unknown", note="an odd model")


@given(st.lists(st.floats(0.2, 7), min_size=11, max_size=11))
def test_the_parts_the_bar_and_the_verdict_agree(gib: list[float]) -> None:
    found = made.memory(*gib)
    text = shown(memory=found, verdict=found.judge(80 * GIB))
    parts = [float(size) for size in re.findall(r" (\d+\.\d)(?=,|  =)", text.partition("[")[0])]
    assert f"  = {sum(parts):.1f} GiB in nvidia-smi" in text
    assert f"expected {sum(parts[:9]):.1f} (" in text, "all but context and cache is allocated"
    shares = re.search(r" (\d+) % needed\n .*: (\d+) % free", text)
    assert shares is not None
    assert sum(map(int, shares.groups())) == pytest.approx(100, abs=1)


def test_the_step_of_what_cannot_run_is_not_shown() -> None:
    assert "\n  step 1.47 s (compute 1.21 s, exposed communication 240 ms, update 20 ms)" in shown()
    assert "\n  step" not in shown(verdict="no")
    assert "\n  step" not in shown(step=None)


def test_what_is_needed_beside_the_gpu_is_named_where_it_is_needed() -> None:
    assert "outside GPU memory: checkpoint of 89.4 GiB\n" in shown()
    text = shown(memory=made.FSDP.memory._replace(host=2 * GIB, pinned=GIB, nvme=3 * GIB))
    assert "2.0 GiB of 1.0 TiB host memory per node (1.0 GiB pinned); 3.0 GiB NVMe" in text
    assert "outside" not in shown(memory=made.FSDP.memory._replace(checkpoint=0.0))


def test_adapters_are_named_with_the_layers_that_have_them() -> None:
    adapters = (Adapters(16, (), 8), Adapters(16, ("q_proj", "v_proj")))
    setups = [made.FSDP.setup._replace(adapters=each) for each in adapters]
    first, second = (shown(setup=setup) for setup in setups)
    assert ", LoRA of rank 16 on every linear layer (assumed), 8-bit weights, bf16" in first
    assert ", LoRA of rank 16 on q_proj v_proj, bf16" in second


def test_what_does_not_shrink_is_said() -> None:
    shrinking = "\n  more GPUs shrink params, grads, moments"
    assert f"{shrinking}; 38.2 GiB is fixed" in shown()
    alone = made.memory(0, 0, 0, 0, 1, 1, 8)
    assert "more GPUs shrink nothing: 10.0 GiB is fixed" in shown(memory=alone)


# the table


def test_the_chosen_row_is_marked_and_steps_are_seconds_of_what_runs() -> None:
    rows = strategies.screen(made.ADVICE, Ink(width=80)).splitlines()
    assert [row[:6] for row in rows if row.startswith(">")] == ["> fsdp"]
    assert re.search(r"^  ddp +167 GiB +no +- +- +-$", "\n".join(rows), re.M)
    assert re.search(r"^  zero2 .* 1\.41 s ", "\n".join(rows), re.M)


def test_columns_go_where_there_is_no_room_but_the_verdict_never() -> None:
    heads = strategies.screen(made.ADVICE, Ink(width=40)).splitlines()[0].split("  ")
    assert [h.strip() for h in heads if h] == ["STRATEGY", "NEEDS", "FITS"]
    assert "NOTE" in strategies.screen(made.ADVICE, Ink(width=120)).splitlines()[0]


def test_nothing_to_show_is_nothing() -> None:
    empty = made.ADVICE._replace(options=(), chosen=None, scale=(), doubts=(), why=())
    assert advice.screen(empty, Ink()).splitlines() == ["Estimates; formulas and sources: --why"]


def test_changes_are_shown_with_what_they_give_and_cost() -> None:
    text = remedies.screen(made.NONE, Ink())
    assert "  1  train.strategy: fsdp\n     needs 52.5 GiB, fits; 85,600 tokens/s\n" in text
    assert "  2  train.offload: both and nodes: 4\n" in text
    assert "     needs 72.5 GiB, tight; 59,300 tokens/s\n" in text
    tight = made.NONE._replace(options=(made.NONE.options[1]._replace(verdict="tight"),))
    compared = remedies.screen(tight, Ink())
    assert "needs 52.5 GiB, fits; 85,600 tokens/s (4 % fewer)\n" in compared
    assert "too much" not in text, "what does not help is no help"
    assert text.endswith("Fewest nodes that fit: 4\n")
    every = remedies.screen(made.NONE, Ink(), every=True)
    assert "  4  train.loss: fused (Liger in the program)\n" in every
    assert "     needs 155 GiB, too much\n" in every
    few = made.NONE._replace(levers=made.LEVERS[2:], smallest_nodes=None)
    (_, line) = remedies.screen(few, Ink(width=120)).splitlines()
    nearest = "train.activation_checkpointing: full: 133 GiB"
    assert line == f"  No change is enough; the nearest is {nearest}"


def test_the_curve_ends_at_the_ideal() -> None:
    text = scaling.screen(made.ADVICE, (), Ink(width=80))
    curves = [line.rpartition("  ")[2] for line in text.splitlines()[2:]]
    assert curves[0].strip("░") == "|"
    assert all(curve.endswith("|") for curve in curves)
    lengths = [len(curve) for curve in curves[1:]]
    assert lengths[2] == pytest.approx(4 * lengths[0], abs=4)
    assert curves[3].count("█") / (lengths[2] - 1) == pytest.approx(310 / 356, abs=0.05)


def test_numbers_of_nodes_that_do_not_do_have_their_reason_once() -> None:
    small = made.scale(1, 0, 0, "no")
    small = small._replace(option=made.DDP)
    again = small._replace(nodes=2)
    answer = made.ADVICE._replace(scale=(small, again, *made.ADVICE.scale[2:]))
    over = small.option.memory.needed / GIB - 80
    line = f"  1, 2: {over:.1f} GiB over the limit; the states alone need 120 GiB\n"
    assert line in scaling.screen(answer, (), Ink(width=80))


def test_why_names_every_formula_and_its_source() -> None:
    text = advice.screen(made.ADVICE, Ink(width=120), reasons=True)
    for part in made.FSDP.memory.components:
        assert (f"{part.formula} ({part.source})" in text) == (part.bytes > 0)
    for line in (*made.ADVICE.why, *made.ADVICE.doubts, *(made.FSDP.step.why)):  # type: ignore[union-attr]
        assert line in text


# clusters


def test_each_cluster_is_a_column_and_blocks_are_as_wide_as_the_screen() -> None:
    wide = offers.screen(made.OFFERS, 1e9, Ink(width=80))
    assert re.search(r"^  cost +444 EUR +396 EUR +72 EUR$", wide, re.M)
    narrow = offers.screen(made.OFFERS, 1e9, Ink(width=40))
    assert len(re.findall("^  cost ", narrow, re.M)) == 2


def test_the_comparison_gives_one_amount_of_memory_on_the_screen_and_as_data() -> None:
    text = offers.screen(made.OFFERS, 1e9, Ink(width=80))
    amounts = re.search(r"^  needs +(\S+) GiB +(\S+) GiB +(\S+) GiB$", text, re.M)
    assert amounts is not None
    rows = offers.data(made.OFFERS, 1e9)["clusters"]
    assert [f"{row['needed_bytes'] / GIB:.1f}" for row in rows] == list(amounts.groups())
    assert {row["nvidia_smi_bytes"] for row in rows} == {made.FSDP.memory.nvidia_smi}


def test_break_even_is_where_the_amounts_are_equal() -> None:
    rented, other, own = made.OFFERS
    even, _, of_own = list_break_evens(made.OFFERS)
    assert even is not None
    assert even.other is other
    assert even.price * rented.gpu_hours == pytest.approx(other.amount)
    assert of_own is not None
    assert of_own.runs is not None
    assert own.owned is not None
    cheaper = (other.amount or 0) - (own.amount or 0)
    assert of_own.runs * cheaper == pytest.approx(own.owned)
    text = offers.screen(made.OFFERS, 1e9, Ink(width=120))
    assert "a100x16 breaks even with h100x32 at 1.65 EUR per GPU-hour (now 1.85)" in text
    assert (
        "dgx-own pays for itself after 556 such runs (8,333 hours), compared with h100x32" in text
    )


def test_without_a_price_nothing_is_said_of_money() -> None:
    free = [Offer(o.cluster, o.option, o.gpu_hours) for o in made.OFFERS]
    text = offers.screen(free, 1e9, Ink())
    assert "even" not in text
    assert "breaks even" not in text
    assert re.search(r"^  cost +- +- +-$", text, re.M)


def test_work_is_that_of_the_first_cluster_whose_time_is_known() -> None:
    first, *others = made.OFFERS
    unfit = Offer("small", first.option._replace(verdict="no", step=None), 0.0)
    text = offers.screen([unfit, *others], 1e9, Ink(width=120))
    assert text.startswith("Same work: 1 billion tokens, as h100x32 does in the job's time\n")
    assert offers.data([unfit, *others], 1e9)["clusters"][0]["gpu_hours"] is None


@pytest.mark.parametrize(
    ("verdict", "title"),
    [
        ("no", "GPU memory side by side: the job fits on none of these clusters"),
        ("fits", "GPU memory side by side: the time of a step is not known"),
    ],
)
def test_without_a_time_only_memory_is_compared(verdict: Verdict, title: str) -> None:
    unfit = [
        Offer(o.cluster, o.option._replace(verdict=verdict, step=None), 0.0) for o in made.OFFERS
    ]
    text = offers.screen(unfit, 0.0, Ink(width=120))
    assert text.splitlines()[0] == title
    assert text.splitlines()[-1].split()[0] == "fits"
    (table,) = page_tables.compare_offers(unfit, 0.0)
    assert isinstance(table, PageTable)
    assert (table.caption, table.rows[-1][0]) == ("GPU memory", "fits")


# foreign text and plain data


def hostile() -> Advice:
    """Every name and sentence is an attack on what draws it."""
    bad = made.HOSTILE
    volume = Volume(bad, "node", 1.0, 0.1, 0.1)
    step = made.step(1, 0.1)._replace(volumes=(volume,), why=(bad,))
    part = Component(bad, 9 * GIB, bad, bad, shrinks=True)
    found = made.FSDP.memory._replace(components=(part,), doubts=(bad,))
    row = made.FSDP._replace(
        name=bad,
        title=bad,
        note=bad,
        step=step,
        memory=found,
        setup=made.FSDP.setup._replace(recipe=made.ADAM._replace(name=bad)),
    )
    return made.ADVICE._replace(
        options=(row, row._replace(chosen=False, verdict="unknown")),
        chosen=row,
        levers=tuple(lever._replace(changes=(bad, bad), note=bad) for lever in made.LEVERS),
        scale=(made.scale(1, 5, 1)._replace(option=row), made.scale(2, 5, 1)),
        doubts=(bad,),
        why=(bad,),
        machine=made.A100._replace(gpu=bad),
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_foreign_text_cannot_act_on_the_terminal(width: int) -> None:
    text = drawn(width, answer=hostile())
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert all(c.isprintable() for c in text.replace("\n", "").replace("\ufffe", ""))


def test_the_plain_data_has_assumptions() -> None:
    option = made.FSDP._replace(setup=made.FSDP.setup._replace(assumed=("loss",)))
    answer = made.ADVICE._replace(chosen=option, factor=1.2)
    found = json.loads(json.dumps(advice.data(answer), allow_nan=False))
    (assumed,) = list_assumptions(option.setup, 1.2)
    assert found["assumptions"] == [
        {
            "assumed": "loss from fp32 logits",
            "alternative": "fused",
            "change_bytes": assumed.change,
            "verdict": "tight",
        }
    ]
    assert found["nearest_run"] is None
    empty = advice.data(made.NONE._replace(options=()))
    assert empty["measured_model"] is None


def test_the_plain_data_has_units_in_its_names_and_sums() -> None:
    found = json.loads(json.dumps(advice.data(made.ADVICE), allow_nan=False))
    assert found["chosen"] == "fsdp"
    row = found["strategies"][2]
    assert row["memory"]["nvidia_smi_bytes"] == sum(
        part["size_bytes"] for part in row["memory"]["components"]
    )
    spent = [v for k, v in row["step"].items() if k.endswith("_seconds") and k != "step_seconds"]
    assert sum(spent) == pytest.approx(row["step"]["step_seconds"])
    assert row["memory"]["headroom_pct"] == pytest.approx(41.16, abs=0.01)
    assert [s["efficiency_pct"] for s in found["scaling"]] == [0, 100, 97, 87]
    other = json.loads(json.dumps(offers.data(made.OFFERS, 1e9), allow_nan=False))
    assert other["clusters"][2]["break_even"]["runs"] == pytest.approx(555.6, abs=0.1)
    lever = advice.data(made.NONE)["levers"][1]
    assert lever["changes"] == ["train.offload: both", "nodes: 4"]
    assert (lever["verdict"], lever["fits"], lever["slower_pct"]) == ("tight", True, 50)


def test_notes_below_the_curve_name_the_network_and_why_a_row_is_above_100_per_cent() -> None:
    first, second = made.scale(1, 100.0, 1.0), made.scale(2, 220.0, 1.1)
    answer = made.ADVICE._replace(scale=(first, second), scale_network="1.25 Gb/s per GPU")
    text = scaling.screen(answer, (), Ink(width=120))
    assert "assumed for steps on several nodes: 1.25 Gb/s per GPU" in text
    assert "updates a smaller shard" in " ".join(text.split())
    other = second._replace(option=second.option._replace(name="zero1+ep8"))
    text = scaling.screen(answer._replace(scale=(first, other)), (), Ink(width=120))
    assert "can take a faster strategy" in " ".join(text.split())
