"""Host keys are verified by both ssh backends, before anything of the user is sent."""

from __future__ import annotations

import subprocess
from base64 import b64decode
from collections.abc import Callable

import pytest

from jobgen.errors import Exit, Unreachable
from jobgen.model.record import Login
from jobgen.transport import connect
from jobgen.transport.known_hosts import HostKey
from tests.transport.conftest import over_ssh, works
from tests.transport.proxy import Proxy
from tests.transport.sshd import Client, Sshd, keygen, public

pytestmark = pytest.mark.ssh


def fingerprint(text: str) -> str:
    kind, blob = text.split()
    return HostKey(kind, b64decode(blob)).fingerprint


def refused(login: Login, server: Sshd) -> Unreachable:
    before = server.log
    with pytest.raises(Unreachable) as caught:
        connect(login)
    assert caught.value.exit is Exit.UNREACHABLE
    new = server.log[len(before) :]
    assert "Accepted" not in new
    assert "Failed" not in new
    assert caught.value.problems[0].hint
    return caught.value


@over_ssh
def test_an_unknown_key_is_refused_with_what_to_do(
    sshd: Sshd, client: Client, backend: str
) -> None:
    client.host("login", sshd)
    error = refused(Login(backend, "login"), sshd)
    assert error.problems[0].code == "J406"
    assert "ssh" in error.problems[0].hint
    assert "login" in error.problems[0].hint
    if backend == "paramiko":
        assert fingerprint(public(sshd.host_keys[0])) in str(error)


@over_ssh
@pytest.mark.parametrize("off", ["no", "accept-new", "off"])
def test_the_user_s_configuration_cannot_switch_the_check_off(
    sshd: Sshd, client: Client, backend: str, off: str
) -> None:
    client.host("login", sshd, f"StrictHostKeyChecking {off}")
    refused(Login(backend, "login"), sshd)
    assert client.known_hosts.read_text() == ""


@over_ssh
def test_a_known_hosts_file_that_is_dev_null_knows_nobody(
    sshd: Sshd, client: Client, backend: str
) -> None:
    client.host("login", sshd, "UserKnownHostsFile /dev/null", "StrictHostKeyChecking no")
    refused(Login(backend, "login"), sshd)


@over_ssh
def test_a_changed_key_stops_and_names_the_line(
    sshd: Sshd, client: Client, backend: str, tmp_path
) -> None:
    client.host("login", sshd)
    other = public(keygen(tmp_path / "other"))
    client.knows("# first line", f"[127.0.0.1]:{sshd.port} {other}")
    error = refused(Login(backend, "login"), sshd)
    assert error.problems[0].code == "J407"
    assert "CHANGED" in str(error)
    assert f"{client.known_hosts}:2" in str(error)
    assert f"-R '[127.0.0.1]:{sshd.port}'" in error.problems[0].hint


@over_ssh
def test_a_revoked_key_is_refused_though_it_is_known(
    sshd: Sshd, client: Client, backend: str
) -> None:
    client.host("login", sshd)
    client.knows(sshd.known_line(), "@revoked * " + public(sshd.host_keys[0]))
    assert refused(Login(backend, "login"), sshd).problems[0].code == "J408"


@over_ssh
@pytest.mark.parametrize("how", ["port", "wildcard", "hashed", "bare", "alias"])
def test_a_known_key_lets_in(sshd: Sshd, client: Client, backend: str, how: str) -> None:
    client.host("login", sshd, *(["HostKeyAlias cluster"] if how == "alias" else []))
    names = {"wildcard": "[127.0.0.*]:*", "bare": "127.0.0.1", "alias": "cluster"}
    client.knows(sshd.known_line(names.get(how, "")))
    if how == "hashed":
        words = ["ssh-keygen", "-q", "-H", "-f", str(client.known_hosts)]
        subprocess.run(words, check=True, capture_output=True)
    works(Login(backend, "login"))


@over_ssh
@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_of_two_host_keys_the_known_one_is_asked_for(
    new_sshd: Callable[..., Sshd], client: Client, backend: str, kind: str
) -> None:
    server = new_sshd("server", kinds=("ed25519", kind))
    client.host("login", server)
    client.knows(server.known_line(key=1))
    works(Login(backend, "login"))


@over_ssh
def test_a_key_of_another_kind_than_the_known_one_is_unknown(
    new_sshd: Callable[..., Sshd], client: Client, backend: str
) -> None:
    server, other = new_sshd("server"), new_sshd("other", kinds=("ecdsa",))
    client.host("login", server)
    client.knows(other.known_line(f"[127.0.0.1]:{server.port}"))
    refused(Login(backend, "login"), server)


def test_an_authority_points_to_the_backend_that_can_use_it(
    sshd: Sshd, client: Client, tmp_path
) -> None:
    client.host("login", sshd)
    client.knows(f"@cert-authority [127.0.0.1]:* {public(keygen(tmp_path / 'ca'))}")
    assert "backend: openssh" in refused(Login("paramiko", "login"), sshd).problems[0].hint


@over_ssh
def test_a_pinned_fingerprint_must_be_the_key_s(sshd: Sshd, client: Client, backend: str) -> None:
    client.host("login", sshd)
    client.knows(sshd.known_line())
    works(Login(backend, "login", fingerprint=fingerprint(public(sshd.host_keys[0]))))
    refused(Login(backend, "login", fingerprint="SHA256:" + "A" * 43), sshd)


def test_a_pinned_fingerprint_needs_no_known_hosts(sshd: Sshd, client: Client) -> None:
    client.host("login", sshd)
    works(Login("paramiko", "login", fingerprint=fingerprint(public(sshd.host_keys[0]))))


@over_ssh
def test_a_fingerprint_of_a_project_only_narrows(sshd: Sshd, client: Client, backend: str) -> None:
    client.host("login", sshd)
    pin = fingerprint(public(sshd.host_keys[0]))
    login = Login(backend, "login", fingerprint=pin, known_hosts_too=True)
    problem = refused(login, sshd).problems[0]
    assert problem.code == "J406"
    assert "under ssh: in the cluster profile" not in problem.hint
    client.knows(sshd.known_line())
    works(login)
    refused(login._replace(fingerprint="SHA256:" + "A" * 43), sshd)


@over_ssh
def test_a_pinned_key_that_is_revoked_is_refused(sshd: Sshd, client: Client, backend: str) -> None:
    client.host("login", sshd)
    client.knows(sshd.known_line(), "@revoked * " + public(sshd.host_keys[0]))
    pin = fingerprint(public(sshd.host_keys[0]))
    assert refused(Login(backend, "login", fingerprint=pin), sshd).problems[0].code == "J408"


@over_ssh
def test_a_machine_in_the_middle_gets_no_login(
    new_sshd: Callable[..., Sshd], sshd: Sshd, client: Client, backend: str
) -> None:
    middle = new_sshd("middle")
    with Proxy(middle.port) as proxy:
        client.host("login", sshd, port=proxy.port)
        client.knows(sshd.known_line(f"[127.0.0.1]:{proxy.port}"))
        assert refused(Login(backend, "login"), middle).problems[0].code == "J407"


@over_ssh
@pytest.mark.parametrize("known", ["both", "jump", "target"])
def test_behind_a_jump_host_both_keys_are_verified(
    new_sshd: Callable[..., Sshd], sshd: Sshd, client: Client, backend: str, known: str
) -> None:
    jump = new_sshd("jump")
    client.host("gate", jump, "BatchMode yes")
    client.host("login", sshd, "ProxyJump gate")
    lines = {"jump": [jump.known_line()], "target": [sshd.known_line()]}
    client.knows(*lines.get(known, [jump.known_line(), sshd.known_line()]))
    if known == "both":
        works(Login(backend, "login"))
        assert "Accepted publickey" in jump.log
    else:
        refused(Login(backend, "login"), sshd)


@over_ssh
def test_a_jump_host_that_nobody_checks_is_not_used(
    new_sshd: Callable[..., Sshd], sshd: Sshd, client: Client, backend: str
) -> None:
    jump = new_sshd("jump")
    client.host("gate", jump, "StrictHostKeyChecking no", "BatchMode yes")
    client.host("login", sshd, "ProxyJump gate")
    client.knows(sshd.known_line())
    refused(Login(backend, "login"), sshd)
    assert "Accepted" not in jump.log


@over_ssh
def test_two_jump_hosts_and_a_proxy_command_lead_there_too(
    new_sshd: Callable[..., Sshd], sshd: Sshd, client: Client, backend: str
) -> None:
    first, second = new_sshd("first"), new_sshd("second")
    client.host("one", first)
    client.host("two", second)
    client.host("login", sshd, "ProxyJump one,two")
    command = f"ssh -F {client.config} -o BatchMode=yes -W %h:%p one"
    client.host("piped", sshd, f"ProxyCommand {command}")
    client.knows(first.known_line(), second.known_line(), sshd.known_line())
    works(Login(backend, "login"))
    assert "Accepted publickey" in second.log
    works(Login(backend, "piped"))
