"""``notify:`` in job.yaml: what it accepts, what it refuses, what Slurm is asked for."""

from __future__ import annotations

import json
import re

import pytest

from jobgen.errors import Invalid
from jobgen.load import load_job
from jobgen.render import render
from tests.golden.cases import templates
from tests.resolve.made import CPUS, job, plan

SECRET = "secrets: [HOOK]\n"


def problems(text: str) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as caught:
        load_job(job() + text, "job.yaml")
    return [(p.code, re.sub(r"^notify\.\S+: ", "", p.message)) for p in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("notify: {on: end}\n", "J116", "notify needs mail, webhook or command"),
        ("notify: {webhook: $HOOK}\n", "J153", "'HOOK' is not listed under secrets"),
        ("notify: {mail: a@b, on: ends}\n", "J123", "unknown event 'ends'"),
        ("notify: {mail: 'a b'}\n", "J123", "'a b' is not an address"),
        ("notify: {mail: 'a@b,c@d'}\n", "J123", "'a@b,c@d' is not an address"),
        ("notify: {mail: '-x'}\n", "J123", "'-x' is not an address"),
        (
            "notify: {mail: a@b}\nslurm: {mail-type: END}\n",
            "J138",
            "notify.mail and slurm.mail-type: both set Slurm's mail",
        ),
        (
            "notify: {command: ./tell, on: [end, time_limit]}\n",
            "J138",
            "time_limit needs the pre-timeout signal of checkpoint",
        ),
    ],
)
def test_what_cannot_work_is_refused(text: str, code: str, message: str) -> None:
    assert problems(text) == [(code, message)]


@pytest.mark.parametrize(
    "url",
    ["ftp://a/b", "https://", "file:///etc/passwd", "-K/x", 'https://a/"b', "https://a b"],
)
def test_only_web_addresses_are_posted_to_and_the_message_does_not_repeat_them(url: str) -> None:
    found = problems(f"notify: {{webhook: {json.dumps(url)}}}\n")
    assert found == [("J123", "expected a URL or the name of a secret")]


def test_a_webhook_of_slack_is_a_secret() -> None:
    url = "https://hooks.slack.com/services/" + "T0000ABCD/B0000ABCD/" + "x1Y2" * 6
    ((code, message),) = problems(f"notify: {{webhook: {url!r}}}\n")
    assert code == "J150"
    assert "x1Y2" not in message


def test_a_word_of_slurm_is_answered_with_ours() -> None:
    with pytest.raises(Invalid) as caught:
        load_job(job() + "notify: {mail: a@b, on: FAIL}\n", "job.yaml")
    assert caught.value.problems[0].hint == "write fail"


def test_mail_is_sent_by_slurm_alone() -> None:
    made = plan(job(notify="{mail: a@b.org, on: [start, fail, time_limit]}"))
    options = {name: s.value for name, s in made.directives.items() if name.startswith("mail")}
    assert options == {"mail-user": "a@b.org", "mail-type": "BEGIN,FAIL,TIME_LIMIT_90"}
    assert made.notify is None
    assert "notify.sh" not in {file.path for file in made.files}


def test_mail_of_the_job_wins_over_the_sites() -> None:
    site = "defaults: {slurm: {mail-type: NONE}}\n"
    made = plan(job(notify="{mail: a@b.org}"), CPUS + site)
    assert made.directives["mail-type"].value == "END"


def test_the_url_is_in_the_script_alone_and_the_secrets_in_no_file() -> None:
    text = job(secrets="[HOOK]", notify="{webhook: 'https://example.org/in/7', on: start}")
    files = {file.path: file.content.decode() for file in render(plan(text), templates()).files}
    assert [path for path in files if "example.org" in files[path]] == ["job.sbatch"]
    assert json.loads(files["plan.json"])["notify"]["webhook"] is True


def test_a_job_without_notify_has_nothing_of_it() -> None:
    for file in render(plan(job()), templates()).files:
        assert b"notif" not in file.content.lower(), file.path
        assert b"notices" not in file.content, file.path
