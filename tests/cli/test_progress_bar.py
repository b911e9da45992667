"""How far a submit has come, on a terminal and elsewhere."""

import pytest

from jobgen.app.context import SubmitStage
from jobgen.cli.output import Output
from jobgen.cli.progress_bar import ProgressBar

MIB = 1 << 20


class Clock:
    """A clock that a test turns by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class OnTerminal(Output):
    """An output whose standard error is drawn on."""

    @property
    def live(self) -> bool:
        return True


def submit(bar: ProgressBar, clock: Clock) -> None:
    bar(SubmitStage(1, "connect", "hpc-login"))
    clock.now = 0.4
    bar(SubmitStage(1, "connect", "hpc-login", ended=True))
    for step in range(101):
        clock.now += 0.05
        bar(SubmitStage(2, "upload", "", done=step * MIB, total=100 * MIB, ended=step == 100))
    bar(SubmitStage(3, "sbatch", "accepted as 7", ended=True))


def test_without_a_terminal_there_is_a_line_for_every_tenth(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    submit(ProgressBar(Output({}), clock), clock)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[1/3] connect   hpc-login  0.4 s"
    assert len([ln for ln in lines if "upload" in ln]) == 10
    half = "[2/3] upload    tar of 100.0 MiB  [#####-----]  50 %  20.0 MiB/s, 2s left"
    assert lines[5].startswith(half)
    assert lines[-2].startswith("[2/3] upload    tar of 100.0 MiB  [##########] 100 %")
    assert lines[-1] == "[3/3] sbatch    accepted as 7"
    assert "\r" not in "".join(lines)


def test_a_terminal_sees_one_line_drawn_over_and_over(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    output = OnTerminal({"COLUMNS": "60"})
    submit(ProgressBar(output, clock), clock)
    text = capsys.readouterr().err
    assert text.count("\n") == 3
    assert 20 < text.count("\r") < 80
    assert all(len(part) < 60 for part in text.replace("\n", "\r").split("\r"))


def test_quiet_means_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    output = Output({})
    output.quiet = 1
    submit(ProgressBar(output, clock), clock)
    assert capsys.readouterr().err == ""
