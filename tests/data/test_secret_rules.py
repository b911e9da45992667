from __future__ import annotations

import re
import string
from itertools import cycle, islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobgen.data import rows
from jobgen.data.secret_rules import find_tokens, has_token, mask_tokens, name_kind

ROWS = list(rows("secret_tokens.csv"))


def token(row: dict[str, str], length: int) -> str:
    """A token of this row with so many characters behind its start."""
    allowed = [c for c in string.ascii_letters + string.digits if re.match(f"[{row['body']}]", c)]
    return row["start"] + "".join(islice(cycle(allowed), length))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["start"])
def test_a_token_is_found_and_masked_wherever_it_stands(row: dict[str, str]) -> None:
    text = token(row, int(row["least"]))
    for line in (f'key = "{text}"', f"--token={text}", f"https://x:{text}@host/", text):
        assert [found.what for found in find_tokens(f"a\n{line}\n".encode())] == [row["what"]], line
        assert text not in mask_tokens(line)
    short = token(row, int(row["in_yaml"]))
    assert has_token(f"python train.py --key {short}")
    assert short not in mask_tokens(f"said {short} and more")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["start"])
def test_what_only_starts_so_is_no_token(row: dict[str, str]) -> None:
    long = int(row["least"])
    for text in (row["start"], row["start"] + "x" * long, "a" + token(row, long)):
        assert not list(find_tokens(text.encode())), text
    assert row["source"]


def test_an_access_key_of_amazons_documentation_is_no_secret() -> None:
    assert not list(find_tokens(b"AKIAIOSFODNN7EXAMPLE"))


HEX = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "line",
    [
        f"export WANDB_API_KEY={HEX}",
        f"WANDB_API_KEY: '{HEX}'",
        f'os.environ["WANDB_API_KEY"] = "{HEX}"',
        f'wandb.login(key="{HEX}")',
        f"wandb login --relogin {HEX}",
        f"aws_secret_access_key = {HEX[:20]}/abcDEFghiJKLmnoPQ+0",
        f'"AWS_SECRET_ACCESS_KEY": "{HEX[:20]}/abcDEFghiJKLmnoPQ+0"',
    ],
)
def test_a_key_is_told_by_the_name_before_it(line: str) -> None:
    assert len(list(find_tokens(f"a\n{line}\n".encode()))) == 1
    assert HEX[:20] not in mask_tokens(line)


@pytest.mark.parametrize(
    "line",
    [
        f"wandb @ git+https://github.com/wandb/wandb@{HEX}",
        f"WANDB_API_KEY=$KEY # {HEX[:39]}",
        'wandb.login(key=os.environ["WANDB_API_KEY"])',
        f"commit {HEX}",
        "aws_secret_access_key = os.environ['AWS_SECRET_ACCESS_KEY']",
    ],
)
def test_a_digest_near_such_a_name_is_no_key(line: str) -> None:
    assert not list(find_tokens(line.encode()))
    assert mask_tokens(line) == line


KEY = "-----BEGIN {}PRIVATE KEY{}-----"


@pytest.mark.parametrize("kind", ["", "RSA ", "OPENSSH ", "EC ", "ENCRYPTED ", "PGP "])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n", "\n\n"])
def test_a_private_key_is_found(kind: str, end: str) -> None:
    header = KEY.format(kind, " BLOCK" if kind == "PGP " else "")
    found = list(find_tokens(f"x\n{header}{end}MIIEow".encode()))
    assert [(f.start, f.what) for f in found] == [(2, "private key")]
    assert header not in mask_tokens(f"{header}{end}MIIEow")


@pytest.mark.parametrize(
    "code", ['if "{}" in text:', "# starts with {}", "{}\n\n", "-----BEGIN PUBLIC KEY-----\nMII"]
)
def test_code_about_keys_is_no_key(code: str) -> None:
    assert not list(find_tokens(code.format(KEY.format("", "")).encode()))


@given(st.binary(max_size=300))
def test_any_bytes_are_searched(content: bytes) -> None:
    assert all(0 <= found.start < len(content) for found in find_tokens(content))


NAMES = Path(__file__).parents[1] / "facts" / "secret_names"


def listed(file: str) -> list[str]:
    return (NAMES / file).read_text(encoding="utf-8").split()


@pytest.mark.parametrize("path", listed("secret_files.txt"))
def test_a_file_of_this_name_is_a_secret(path: str) -> None:
    assert name_kind(path, is_directory=False)
    assert name_kind(f"some/{path}", is_directory=False)


@pytest.mark.parametrize("path", listed("secret_directories.txt"))
def test_a_directory_of_this_name_holds_secrets(path: str) -> None:
    assert name_kind(path, is_directory=True)


@pytest.mark.parametrize("path", listed("harmless_files.txt"))
def test_a_file_of_this_name_is_none(path: str) -> None:
    assert not name_kind(path, is_directory=False)


@pytest.mark.parametrize("path", ["token", "secrets", "credentials", "hub", "shadow", "gcloud"])
def test_a_package_of_this_name_is_none(path: str) -> None:
    assert not name_kind(path, is_directory=True)


def test_text_that_no_file_can_hold_is_no_token() -> None:
    assert not has_token("half of a character: \ud800")


def test_options_named_after_hugging_face_are_no_tokens() -> None:
    for word in ("data.hf_dataset=True", "--hf_tokenizer gpt2", "hf_checkpoint_8B", "hf_config:"):
        assert not has_token(f"train.py {word}"), word
        assert mask_tokens(word) == word
    for word in ("hf_datasetabc", "hf_tokenizer1", "hf_abcdefgh"):
        assert has_token(f"train.py {word}"), word
