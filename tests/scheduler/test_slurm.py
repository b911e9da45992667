"""The words that Slurm is told, and text of any kind that comes back."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.model.observation import Observation, format_mark
from jobgen.model.record import JobId, JobState
from jobgen.scheduler import Allocation, Attempt, merge_observations
from jobgen.scheduler.reasons import explain_pending, explain_reason
from jobgen.scheduler.slurm import HISTORY, QUERY, SlurmScheduler
from jobgen.scheduler.slurm_format import SEPARATOR, parse_seconds, parse_state, split_nodes
from jobgen.shell import Command, Result

SLURM = SlurmScheduler()
TOKEN = "abcdefghijklmnopqrstuvwxyz"


def test_a_submit_names_the_token_the_attempt_and_the_directory() -> None:
    attempt = Attempt(("bundle/job.sbatch", "d1"), "/s/u's/a b", TOKEN, 2)
    words = SLURM.submit(attempt, ["--hold"])
    assert words.words == (
        "sbatch",
        "--parsable",
        f"--comment=jobgen:{format_mark(TOKEN)}:2",
        "--chdir=/s/u's/a b",
        "--hold",
        "bundle/job.sbatch",
        "d1",
    )


def test_the_user_s_comment_stays_before_ours() -> None:
    options = ["--comment=for the paper", "--nice=5"]
    words = SLURM.submit(Attempt(("j",), "/d", TOKEN, 1), options).words
    assert f"--comment=for the paper jobgen:{format_mark(TOKEN)}:1" in words
    assert sum(str(word).startswith("--comment") for word in words) == 1


def test_a_single_id_is_asked_twice_so_that_its_absence_is_no_error() -> None:
    assert "--jobs=7,7" in SLURM.query([JobId(7)]).words
    assert "--jobs=7,7" in SLURM.query([JobId(7, task=1), JobId(7, task=2)]).words
    assert "--jobs=7,8" in SLURM.query([JobId(7), JobId(8)]).words


def test_a_job_of_another_cluster_is_asked_for_there() -> None:
    job = JobId(7, cluster="alpha")
    commands = [SLURM.query([job]), SLURM.query_history([job]), SLURM.cancel([job])]
    for command in commands:
        assert command is not None
        assert "--clusters=alpha" in command.words


def test_a_signal_goes_to_the_batch_shell_only() -> None:
    assert SLURM.cancel([JobId(7)], signal="USR1").words == (
        "scancel",
        "--batch",
        "--signal=USR1",
        "7",
    )


def test_a_site_without_accounting_is_never_asked_for_it() -> None:
    quiet = SlurmScheduler(accounting="none")
    assert quiet.query_history([JobId(7)]) is None
    assert quiet.find_past(3) is None


def test_the_command_line_survives_a_real_shell() -> None:
    words = SLURM.query([JobId(7)])
    program = f"printf '%s\\0' {words}"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True)
    assert done.stdout.split("\0")[:-1] == [str(word) for word in words.words]


def test_the_name_stands_last_because_it_may_hold_anything() -> None:
    assert QUERY.split(SEPARATOR)[-1] == "%j"
    assert HISTORY.split(",")[-1] == "JobName"


def test_our_own_words_are_not_taken_from_a_scheduler() -> None:
    assert {parse_state(word) for word in ("LOST", "PLANNED", "REJECTED", "SUBMITTING")} == {
        JobState.UNKNOWN
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0:05", 5),
        ("1:02:03", 3723),
        ("2-00:00:01", 172_801),
        ("93784", 93_784),
        ("UNLIMITED", None),
        ("INVALID", None),
        ("", None),
        ("NOT_SET", None),
        ("1:2:3:4", None),
    ],
)
def test_durations(text: str, value: int | None) -> None:
    assert parse_seconds(text) == value


FIELD = st.text(alphabet=st.characters(blacklist_characters="\n\x1f"), max_size=12)
LIKELY = st.sampled_from(
    [
        *("12", "12_3", "12_[4-9%2]", "12+1", "RUNNING", "R", "CANCELLED by 0", "0:12", ""),
        *("N/A", "(null)", "UNLIMITED", "n[1-2]", "0:0", f"jobgen:{TOKEN}:1", "/s/a-abcdefgh"),
    ]
)
TEXT = st.lists(
    st.lists(FIELD | LIKELY, min_size=1, max_size=13).map(SEPARATOR.join), max_size=6
).map("\n".join)


PARSERS = (
    "parse_submit",
    "is_refusal",
    "parse_query",
    "parse_history",
    "parse_own_jobs",
    "parse_test",
    "parse_config",
)


@given(st.integers(-1, 255), TEXT | st.text(), st.text(max_size=200))
def test_no_text_whatever_makes_a_parser_raise(code: int, out: str, err: str) -> None:
    said = Result(code, out.encode("utf-8", "surrogatepass"), err.encode("utf-8", "surrogatepass"))
    for method in PARSERS:
        getattr(SLURM, method)(said)


@given(st.binary(max_size=300), st.binary(max_size=100))
def test_no_bytes_whatever_make_a_parser_raise(out: bytes, err: bytes) -> None:
    said = Result(0, out, err)
    for method in PARSERS:
        getattr(SLURM, method)(said)


@given(st.text(alphabet=st.characters(blacklist_characters="\n"), max_size=40))
def test_a_name_of_any_characters_moves_no_other_field(name: str) -> None:
    row = ["9", "RUNNING", "None", "n1", "0:01", "0:02", "N/A", "/d", f"jobgen:{TOKEN}:1", name]
    seen = SLURM.parse_query(Result(0, SEPARATOR.join(row).encode("utf-8", "surrogatepass")))
    assert seen is not None
    assert seen[JobId(9)].comment == f"jobgen:{TOKEN}:1"
    assert seen[JobId(9)].nodes == "n1"


@given(st.lists(st.text(max_size=20), max_size=5), st.integers(1, 9))
def test_a_submit_is_what_was_said_after_any_shell(options: list[str], attempt: int) -> None:
    options = [option.replace("\0", "") for option in options]
    words = SLURM.submit(Attempt(("e",), "/d", TOKEN, attempt), options)
    assert shlex.split(str(words)) == [str(word) for word in words.words]


def _seen(job: JobId, what: JobState) -> Observation:
    return Observation(job, what)


def test_an_array_runs_while_one_of_its_tasks_runs() -> None:
    parts = [
        _seen(JobId(5, task=0), JobState.COMPLETED),
        _seen(JobId(5, task=1), JobState.RUNNING),
        _seen(JobId(5), JobState.PENDING),
        _seen(JobId(6), JobState.FAILED),
    ]
    told = merge_observations(JobId(5), parts)
    assert told is not None
    assert (told.job, told.state) == (JobId(5), JobState.RUNNING)


def test_an_array_that_ended_failed_if_one_task_failed() -> None:
    parts = [
        _seen(JobId(5, task=0), JobState.COMPLETED),
        _seen(JobId(5, task=1), JobState.FAILED),
    ]
    told = merge_observations(JobId(5), parts)
    assert told is not None
    assert told.state is JobState.FAILED


def test_a_job_that_nobody_mentions_is_not_there() -> None:
    assert merge_observations(JobId(5), [_seen(JobId(6), JobState.RUNNING)]) is None


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Resources", "next in line"),
        ("AssocGrpGRES", "(GPUs)"),
        ("QOSMaxGRESPerUser", "(GPUs)"),
        ("QOSMaxWallDurationPerJobLimit", "--time"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-4]", "--time"),
        ("RaisedSignal:11(Segmentation fault)", "signal"),
        ("launch failed requeued held", "held"),
    ],
)
def test_reasons_are_told_in_plain_words(reason: str, words: str) -> None:
    assert words in explain_pending(reason)
    assert explain_reason(reason).startswith(f"{reason}: ")


def test_a_reason_that_is_not_known_stands_alone() -> None:
    assert explain_reason("Frobnication") == "Frobnication"


@given(st.text(max_size=60))
def test_any_reason_has_words(reason: str) -> None:
    assert isinstance(explain_reason(reason), str)


def test_a_validation_runs_the_same_script() -> None:
    told = SLURM.test_only("j.sbatch", ["--nodes=2"])
    assert told == Command.of("sbatch", "--test-only", "--nodes=2", "j.sbatch")


def test_a_step_joins_a_running_job_on_one_of_its_nodes() -> None:
    allocation = Allocation(8123, ("n1", "n2"))
    words = SLURM.start_step(allocation, "n2", Command.of("ls", "a b"), tty=True, name="look").words
    assert words[0] == "srun"
    assert {"--jobid=8123", "--nodelist=n2", "--overlap", "--pty", "--job-name=look"} <= {*words}
    assert words[-2:] == ("ls", "a b")
    plain = SLURM.start_step(allocation, "n2", Command.of("ls"), name="look").words
    assert "--pty" not in plain


def test_an_element_of_an_array_has_a_number_of_its_own() -> None:
    asked = SLURM.find_allocations(JobId(8123, task=4, cluster="alpha")).words
    assert {"--jobs=8123_4", "--clusters=alpha"} <= {*asked}
    rows = [("8127", "n[1-2],m7", "8123_4"), ("8128", "", "8123_5")]
    lines = ["CLUSTER: alpha", *(SEPARATOR.join(row) for row in rows)]
    told = Result(0, "\n".join(lines).encode())
    assert SLURM.parse_allocations(told) == (Allocation(8127, ("n1", "n2", "m7")),)


def test_a_component_is_entered_by_its_index_in_its_job() -> None:
    rows = [("8", "n1", "7+1"), ("7", "n[3-4]", "7+0")]
    told = Result(0, "\n".join(SEPARATOR.join(row) for row in rows).encode())
    found = SLURM.parse_allocations(told)
    assert found == (Allocation(7, ("n1",), component=1), Allocation(7, ("n3", "n4"), component=0))
    words = SLURM.start_step(found[0], "n1", Command.of("ls"), name="look").words
    assert {"--jobid=7", "--het-group=1", "--nodelist=n1"} <= {*words}


def test_the_components_of_a_job_are_one_job_on_all_their_nodes() -> None:
    def see(component: int, state: JobState, nodes: str) -> Observation:
        return Observation(JobId(7, component=component), state, nodes=nodes)

    parts = [see(1, JobState.RUNNING, "n1"), see(0, JobState.RUNNING, "n[3-4]")]
    merged = merge_observations(JobId(7), parts)
    assert merged is not None
    assert (merged.job, merged.state, merged.nodes) == (JobId(7), JobState.RUNNING, "n[3-4],n1")
    parts = [see(1, JobState.COMPLETED, "n1"), see(0, JobState.FAILED, "n[3-4]")]
    merged = merge_observations(JobId(7), parts)
    assert merged is not None
    assert merged.state is JobState.FAILED, "the batch shell runs in the first component"


def test_a_job_that_is_gone_has_no_allocation_and_silence_is_told_from_it() -> None:
    gone = Result(1, err=b"slurm_load_jobs error: Invalid job id specified\n")
    assert SLURM.parse_allocations(gone) == ()
    assert SLURM.parse_allocations(Result(1, err=b"Unable to contact slurm controller")) is None


@pytest.mark.parametrize("nodes", ["-oProxyCommand=x", "n1;id", "n[1-", "n1 n2", "n[1-999999999]"])
def test_what_is_no_node_list_names_no_node(nodes: str) -> None:
    assert split_nodes(nodes) == ()
    row = f"7{SEPARATOR}{nodes}{SEPARATOR}7\n"
    assert SLURM.parse_allocations(Result(0, row.encode())) in (
        (),
        (Allocation(7, ()),),
    )
