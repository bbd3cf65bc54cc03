"""The URL and the token, before the first request."""

import pytest

from bullpen.client.address import checked_address
from bullpen.errors import ConfigError


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("https://bullpen.example.com/", "https://bullpen.example.com"),
        ("http://127.0.0.1:8420/v1", "http://127.0.0.1:8420"),
        ("https://example.com/bullpen/", "https://example.com/bullpen"),
        ("http://[::1]:8420", "http://[::1]:8420"),
    ],
)
def test_a_url_is_taken_without_the_path_of_the_api(given: str, url: str) -> None:
    assert checked_address(given, "token").url == url


@pytest.mark.parametrize(
    "given",
    [
        "",
        "bullpen.example.com",
        "127.0.0.1:8420",
        "ftp://x",
        "https://",
        "https://x:99999",
        "https://x/?a=b",
        "https://a b",
    ],
)
def test_what_is_no_url_of_a_server_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(ConfigError, match=r"^server ") as caught:
        checked_address(given)
    assert "https://bullpen.example.com" in caught.value.remedy


def test_a_password_in_the_url_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        checked_address("https://me:hunter2@bullpen.example.com")
    assert "hunter2" not in str(caught.value) + caught.value.remedy


@pytest.mark.parametrize("host", ["bullpen.example.com", "10.0.0.1", "localhost.example.com"])
def test_a_token_is_not_sent_in_clear_text_to_another_machine(host: str) -> None:
    with pytest.raises(ConfigError, match="clear text") as caught:
        checked_address(f"http://{host}:8420", "bp_secret")
    assert "https://" in caught.value.remedy
    assert "bp_secret" not in str(caught.value) + caught.value.remedy
    assert checked_address(f"http://{host}:8420").url  # without a token nothing is given away


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "gänsefüßchen"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError, match=r"^token: ") as caught:
        checked_address("https://bullpen.example.com", token)
    assert token not in str(caught.value)


def test_the_token_is_not_in_the_representation() -> None:
    assert "bp_secret" not in repr(checked_address("https://bullpen.example.com", "bp_secret"))
