"""What a known_hosts file says of a host, compared with what OpenSSH reads in the same file."""

from __future__ import annotations

import shutil
import subprocess
from base64 import b64decode
from pathlib import Path

import pytest

from jobgen.transport.known_hosts import HostKey, Trust, find_lines, judge
from tests.transport.sshd import keygen, public


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    if not shutil.which("ssh-keygen"):
        pytest.skip("no ssh-keygen here")
    place = tmp_path_factory.mktemp("keys")
    kinds = {"a": "ed25519", "b": "ed25519", "e": "ecdsa"}
    return {name: public(keygen(place / name, kind)) for name, kind in kinds.items()}


def key_of(text: str) -> HostKey:
    kind, blob = text.split()
    return HostKey(kind, b64decode(blob))


def says(tmp_path: Path, name: str, key: str, *lines: str) -> Trust:
    file = tmp_path / "known_hosts"
    file.write_text("\n".join(lines) + "\n")
    return judge(key_of(key), find_lines(name, [tmp_path / "absent", file]))[0]


@pytest.mark.parametrize(
    ("hosts", "name", "known"),
    [
        ("login", "login", True),
        ("LOGIN", "login", True),
        ("login,other", "other", True),
        ("login2", "login", False),
        ("*.example", "login.example", True),
        ("l?gin", "login", True),
        ("*.example,!login.example", "login.example", False),
        ("!login.example,*.example", "login.example", False),
        ("!login.example,*.example", "other.example", True),
        ("[login]:2222", "[login]:2222", True),
        ("[login]:2222", "login", False),
        ("login", "[login]:2222", False),
        ("[*.example]:2222", "[a.example]:2222", True),
        ("[l]ogin", "login", False),
    ],
)
def test_a_host_field_is_read_as_openssh_reads_it(
    tmp_path: Path, keys: dict[str, str], hosts: str, name: str, known: bool
) -> None:
    trust = says(tmp_path, name, keys["a"], f"{hosts} {keys['a']}")
    assert trust is (Trust.KNOWN if known else Trust.UNKNOWN)
    found = subprocess.run(
        ["ssh-keygen", "-F", name, "-f", str(tmp_path / "known_hosts")], capture_output=True
    )
    assert (found.returncode == 0) is known


def test_a_hashed_name_is_found(tmp_path: Path, keys: dict[str, str]) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"login {keys['a']}\n[login]:22022 {keys['b']}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(file)], check=True, capture_output=True)
    assert "login" not in file.read_text()
    assert judge(key_of(keys["a"]), find_lines("login", [file]))[0] is Trust.KNOWN
    assert judge(key_of(keys["b"]), find_lines("[login]:22022", [file]))[0] is Trust.KNOWN
    assert judge(key_of(keys["b"]), find_lines("login", [file]))[0] is Trust.CHANGED


def test_another_key_of_the_same_kind_is_a_change_and_of_another_kind_is_unknown(
    tmp_path: Path, keys: dict[str, str]
) -> None:
    line = f"login {keys['a']}"
    assert says(tmp_path, "login", keys["b"], line) is Trust.CHANGED
    assert says(tmp_path, "login", keys["e"], line) is Trust.UNKNOWN
    assert says(tmp_path, "login", keys["b"], line, f"login {keys['b']}") is Trust.KNOWN


def test_a_revoked_key_is_refused_wherever_the_line_stands(
    tmp_path: Path, keys: dict[str, str]
) -> None:
    revoked, plain = f"@revoked * {keys['a']}", f"login {keys['a']}"
    assert says(tmp_path, "login", keys["a"], revoked, plain) is Trust.REVOKED
    assert says(tmp_path, "login", keys["a"], plain, revoked) is Trust.REVOKED
    assert says(tmp_path, "login", keys["b"], revoked, f"login {keys['b']}") is Trust.KNOWN


def test_an_authority_is_said_and_is_no_host_key(tmp_path: Path, keys: dict[str, str]) -> None:
    authority = f"@cert-authority *.example {keys['a']}"
    assert says(tmp_path, "a.example", keys["b"], authority) is Trust.SIGNED_ELSEWHERE
    assert says(tmp_path, "a.example", keys["a"], authority) is Trust.SIGNED_ELSEWHERE
    assert says(tmp_path, "elsewhere", keys["b"], authority) is Trust.UNKNOWN


def test_lines_that_make_no_sense_are_passed_over(tmp_path: Path, keys: dict[str, str]) -> None:
    odd = ["", "# login x y", "login", "login ssh-ed25519", "login ssh-ed25519 !!!", "|1|x|y a b"]
    odd += ["|1|bad base64|x ssh-ed25519 AAAA", "@unknown login " + keys["a"], "\x00\xff"]
    assert says(tmp_path, "login", keys["a"], *odd) is Trust.UNKNOWN
    assert says(tmp_path, "login", keys["a"], *odd, f"login {keys['a']}") is Trust.KNOWN


@pytest.mark.parametrize("between", "\v\f\r\x1c\x85\u2028")
def test_a_line_ends_at_a_line_feed_only(
    tmp_path: Path, keys: dict[str, str], between: str
) -> None:
    """ssh reads one comment there, and trusts no key in it."""
    comment = f"# old{between}login {keys['a']}"
    assert says(tmp_path, "login", keys["a"], comment) is Trust.UNKNOWN
    says(tmp_path, "login", keys["a"], comment, f"login {keys['a']}")
    (line,) = find_lines("login", [tmp_path / "known_hosts"])
    assert line.number == 2


def test_a_fingerprint_is_the_one_that_ssh_prints(tmp_path: Path) -> None:
    path = keygen(tmp_path / "key")
    printed = subprocess.run(["ssh-keygen", "-lf", str(path)], capture_output=True, text=True)
    assert key_of(public(path)).fingerprint == printed.stdout.split()[1]
