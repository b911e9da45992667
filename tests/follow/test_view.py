"""What a person chose to see decides which files are read at all."""

import pytest

from jobgen.follow.view import View, parse_ranks

FILES = ["logs/0/0/n01.0.out", "logs/0/0/n01.0.err", "logs/0/0/n02.9.out", "logs/job-7.out"]


def wanted(view: View) -> list[str]:
    return [f.rpartition("/")[2] for f in FILES if view.wants(f)]


def test_everything_is_shown_by_default() -> None:
    assert wanted(View()) == ["n01.0.out", "n01.0.err", "n02.9.out", "job-7.out"]


def test_ranks_nodes_and_streams_choose_files() -> None:
    assert wanted(View(ranks=parse_ranks("8-15"))) == ["n02.9.out"]
    assert wanted(View(ranks=parse_ranks("0, 9"))) == ["n01.0.out", "n01.0.err", "n02.9.out"]
    assert wanted(View(nodes=("n02",))) == ["n02.9.out"]
    assert wanted(View(nodes=("n0*",))) == ["n01.0.out", "n01.0.err", "n02.9.out"]
    assert wanted(View(stream="err")) == ["n01.0.err"]
    assert wanted(View(stream="out")) == ["n01.0.out", "n02.9.out", "job-7.out"]


def test_an_array_task_and_a_restart_choose_files() -> None:
    view = View(tasks=frozenset({"3"}), restart=1)
    assert view.wants("logs/3/1/n01.0.out")
    assert view.wants("logs/job-7_3.out")
    assert not view.wants("logs/3/0/n01.0.out")
    assert not view.wants("logs/2/1/n01.0.out")


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "3-1", "1,,2", "0x1", "1.5", "\uff11"])
def test_ranks_that_are_no_ranks_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write"):
        parse_ranks(text)


def test_all_is_no_filter() -> None:
    assert parse_ranks("all") is None


def test_a_file_is_chosen_by_its_name_or_path_and_may_be_of_no_rank() -> None:
    view = View(files=("n01.1.err", "nccl*.log", "1/0/*.out"))
    for path in ("0/0/n01.1.err", "logs/0/0/n01.1.err", "0/0/nccl_debug.log", "1/0/n02.3.out"):
        assert view.wants(path), path
    for path in ("0/0/n01.1.out", "job-7.out", "0/0/n01.11.err"):
        assert not view.wants(path), path
    source = view.identify("0/0/nccl_debug.log")
    assert source is not None
    assert (source.node, source.rank) == ("nccl_debug.log", None)


def test_a_brief_view_has_rank_0_and_every_ranks_errors() -> None:
    view = View(brief=True)
    wanted = {"n01.0.out": True, "n01.0.err": True, "n02.9.out": False, "n02.9.err": True}
    assert {name: view.wants(f"0/0/{name}") for name in wanted} == wanted
    assert view.wants("job-7.out")


def test_a_step_chooses_its_ranks_files_alone() -> None:
    view = View(steps=("eval",))
    assert view.wants("logs/0/1/eval/n01.0.out")
    assert not view.wants("logs/0/1/train/n01.0.out")
    assert not view.wants("logs/job-7.out")
    assert view.narrowed
