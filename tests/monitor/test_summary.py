"""Lines of a summary as values: nothing in them is believed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jobgen.monitor.findings import list_remarks, summarize_job
from jobgen.monitor.summary import summarize_nodes

GOOD = """node n1 samples=9 first=100 last=370 load=2.5 cpu=50 mem=10 mem_total=20 rx=5 tx=6
gpu n1 0 samples=9 util=97.5 p10=90 idle=1 mem=3 mem_total=4 temp=60 by.hw_thermal=3 at=370
node n2 samples=9 first=100 last=370
gpu n2 0 samples=9 util=12 p10=1 idle=8
"""
words = st.sampled_from(GOOD.split())


def test_names_numbers_and_reasons_that_are_none_are_passed_over() -> None:
    text = (
        "node \x1b[31m samples=1 first=1 last=2\n"
        "node n1 samples=x first=1 last=2 cpu=1e9 load=-3 mem=" + "9" * 30 + "\n"
        "gpu n1 0 samples=4 util=nan by.\x1b[2J=2 by.hw_thermal=99 at=5 now.by=\x1b+idle\n"
        "gpu n1 99999 samples=4\n"
        "gpu n7 0 samples=4 util=3\n"
        "node n3 first=9 last=2\n"
    )
    (node,) = summarize_nodes([text])
    assert (node.name, node.samples, node.cpu, node.load, node.memory) == (
        "n1",
        0,
        None,
        None,
        None,
    )
    (gpu,) = node.gpus
    assert (gpu.util, dict(gpu.held)) == (None, {"hw_thermal": 1.0})
    assert gpu.now is not None
    assert gpu.now.reasons == ("idle",)


@given(st.text(max_size=300) | st.lists(words | st.text(max_size=8)).map(" ".join))
def test_no_text_is_too_odd(text: str) -> None:
    for found in (summarize_nodes([text]), summarize_nodes([GOOD, text])):
        list_remarks(found)
        assert summarize_job(found).gpus == sum(len(node.gpus) for node in found)


@given(st.data())
def test_no_mutation_of_a_real_answer_is_too_odd(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(GOOD)))
    text = GOOD[:at] + data.draw(st.text(max_size=4)) + GOOD[at + data.draw(st.integers(0, 6)) :]
    found = summarize_nodes([text])
    list_remarks(found)
    summarize_job(found)
