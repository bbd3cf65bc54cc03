"""No secret leaves in evidence: those that are known, and those that have the form of one."""

import base64
import json
from pathlib import Path

import pytest

from bullpen.config import Github, Settings
from bullpen.evidence.scrub import Scrubber, known_secrets
from bullpen.settings.redaction import HIDDEN

KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA75V\nqL2Zk0aa\n-----END RSA PRIVATE KEY-----"
JIT = base64.b64encode(
    json.dumps({".runner": "e30=" * 20, ".credentials": "e30=" * 20}, separators=(",", ":")).encode()
)
"""As GitHub makes it: a JSON of files by name, which begin with a dot."""

SECRETS = [
    JIT.decode(),
    "LLBF3JGZDX3P5PMEXLND6TS6FCWO6",  # a registration token, from GitHub's documentation
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "ghs_0123456789abcdefghijABCDEFGHIJ012345",
    "github_pat_11ABCDEFG0123456789_abcdefghijklmnop",
    "bpo_0123456789abcdef_" + "0" * 64,
    "bpa_i-0123456789abcdef_1790000000_QUJDREVGR0hJSktMTU5PUA",
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
    KEY,
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("around", ["{}", "got {} from the vault", "x={}&y=1", '{{"a": "{}"}}', "line\n{}\nline"])
def test_what_has_the_form_of_a_secret_is_hidden(secret: str, around: str) -> None:
    shown = Scrubber().text(around.format(secret))
    assert secret not in shown
    assert all(line not in shown for line in secret.splitlines())
    assert HIDDEN in shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def/ghi", "Authorization: Bearer (not shown)"),
        ("authorization=abcdefgh", "authorization=(not shown)"),
        ("./config.sh --url u --token AABBCCDDEEFF --name n", "./config.sh --url u --token (not shown) --name n"),
        ("DB_PASSWORD=hunter22 next", "DB_PASSWORD=(not shown) next"),
        ('"client_secret": "abcd1234"', '"client_secret": "(not shown)"'),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = (not shown)"),
        ("fetching https://user:pa55word@example.com/x", "fetching https://(not shown)@example.com/x"),
        ('"password": "two words, and more"', '"password": "(not shown)"'),
        ("password: 'two words, and more'", "password: '(not shown)'"),
        (f'"secret": "{"a b" * 1000}"', '"secret": "(not shown)"'),
        ("encoded_jit_config=abcd1234", "encoded_jit_config=(not shown)"),
        (r"{\"token\": \"abcd1234", r"{\"token\": \"(not shown)"),
        ("token%3Dabcd1234", "token%3D(not shown)"),
        ("clone https://abcd1234abcd1234@example.com/x", "clone https://(not shown)@example.com/x"),
        ("clone ssh://git@example.com/x", "clone ssh://git@example.com/x"),
        ("the token was refused", "the token was refused"),
        ("see https://example.com:8443/path", "see https://example.com:8443/path"),
    ],
)
def test_what_stands_behind_the_name_of_a_secret_is_hidden(text: str, shown: str) -> None:
    assert Scrubber().text(text) == shown


def test_the_end_of_a_private_key_at_the_beginning_of_a_log_is_hidden() -> None:
    log = KEY.partition("\n")[2] + "\nbooted\n"
    shown = Scrubber().log(log.encode()).decode()
    assert "MIIEpAIBAAKCAQEA75V" not in shown
    assert "qL2Zk0aa" not in shown
    assert shown.endswith("\nbooted\n")


def test_known_secrets_are_hidden_wherever_they_stand() -> None:
    scrubber = Scrubber(["correct horse battery", "short"])
    assert scrubber.text("xcorrect horse batteryx short") == f"x{HIDDEN}x short"


def test_the_settings_the_environment_and_files_name_known_secrets(tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_text(KEY)
    own = Github(token="my-own-token-value", private_key=f"file:{file}", webhook_secret="hook-secret-value")
    environ = {"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI", "BULLPEN_TOKEN": "operators-token", "HOME": "/home/ada"}
    found = known_secrets(Settings(github=own), environ)
    for secret in ("my-own-token-value", "hook-secret-value", KEY, "MIIEpAIBAAKCAQEA75V", "wJalrXUtnFEMI"):
        assert secret in found
    assert "operators-token" in found
    assert "/home/ada" not in found


def test_a_file_that_cannot_be_read_is_no_error(tmp_path: Path) -> None:
    own = Github(token=f"file:{tmp_path / 'nothing'}", private_key="file:\0")
    assert known_secrets(Settings(github=own), {}) != []


def test_a_tree_hides_values_by_the_name_of_their_field_and_by_the_option_before_them() -> None:
    tree = {
        "command": ["deploy", "--api-token", "abcdefgh", "--name", "x", "--password=abcdefgh"],
        "secretName": "value",
        "key": "host/1",
        "count": 4711,
        "tokens": 3,
        "deep": [{"password": "abc"}],
    }
    assert Scrubber().tree(tree) == {
        "command": ["deploy", "--api-token", HIDDEN, "--name", "x", f"--password={HIDDEN}"],
        "secretName": HIDDEN,
        "key": "host/1",
        "count": 4711,
        "tokens": 3,
        "deep": [{"password": HIDDEN}],
    }


@pytest.mark.parametrize(
    "piece", ["a", "token", "token=", "-----BEGIN ", "eyJ", "://", "://a:", "bearer ", "gh", " ", "\n", "a\n", "A="]
)
def test_a_long_line_of_anything_is_read_in_one_pass(piece: str) -> None:
    """A pattern that goes back for each of a quarter of a million characters would take hours."""
    text = (piece * 262_144)[:262_144]
    assert len(Scrubber(["known-secret-value"]).text(text)) > 0
