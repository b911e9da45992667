"""What ssh says of a host, and what is made of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from jobgen.errors import Unreachable
from jobgen.transport.route import build_route, check_names, find_route, parse

PRINTED = """\
host x
user bob
hostname 10.1.2.3
port 2222
identityfile ~/.ssh/id one
identityfile /keys/%r
identitiesonly yes
identityagent none
userknownhostsfile /home/a b/known /tmp/second
globalknownhostsfile none
connecttimeout 7
proxycommand none
stricthostkeychecking false
"""


def test_the_printed_options_become_a_route() -> None:
    made = build_route("x", parse(PRINTED))
    assert (made.hostname, made.port, made.user) == ("10.1.2.3", 2222, "bob")
    assert made.identity_files == (Path.home() / ".ssh/id one", Path("/keys/bob"))
    assert made.known_hosts == (Path("/home/a b/known"), Path("/tmp/second"))
    assert (made.identities_only, made.identity_agent) == (True, "none")
    assert (made.connect_timeout, made.host_key_checking) == (7.0, "false")
    assert (made.proxy_command, made.proxy_jump) == ("", "")
    assert made.known_name == "[10.1.2.3]:2222"
    assert made.label == "x (10.1.2.3 port 2222)"


def test_a_plain_host_has_a_plain_name() -> None:
    made = build_route("Login.Example", parse("hostname login.example\nuser a\n"))
    assert made.known_name == "login.example"
    assert made.label == "Login.Example (login.example)"


@pytest.mark.parametrize("host", ["login", "a.b-c.example", "10.0.0.1", "fe80::1%eth0", "my_host"])
def test_good_names_pass(host: str) -> None:
    check_names(host, "ann.b-c@site")


@pytest.mark.parametrize(
    ("host", "user"),
    [("-x", ""), ("a b", ""), ("a;b", ""), ("a\nb", ""), ("a", "-l"), ("a", "a b"), ("a", "`id`")],
)
def test_names_that_a_shell_or_ssh_could_misread_do_not(host: str, user: str) -> None:
    with pytest.raises(Unreachable, match="is not the name of a"):
        check_names(host, user)


def test_jump_hosts_are_routed_one_through_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which("ssh"):
        pytest.skip("no ssh here")
    config = tmp_path / "config"
    config.write_text(
        "Host a\n  ProxyJump gate\n  HostName a.example\n"
        "Host b\n  ProxyJump elsewhere\n  Port 23\n"
        "Host x\n  ProxyJump me@a:2200,b\n"
    )
    monkeypatch.setenv("JOBGEN_SSH_CONFIG", str(config))
    hops = find_route("x").list_jumps()
    assert [hop.host for hop in hops] == ["gate", "a", "b"]
    assert (hops[1].user, hops[1].port, hops[1].hostname) == ("me", 2200, "a.example")
    assert hops[2].port == 23
