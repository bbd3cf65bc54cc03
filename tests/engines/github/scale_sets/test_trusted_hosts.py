"""Tokens go to GitHub's hosts and to the configured server, and nowhere else."""

import pytest

from bullpen.engines.github.scale_sets.trusted_hosts import below, trusted
from bullpen.errors import Refused


@pytest.mark.parametrize(
    ("url", "home"),
    [
        ("https://pipelines.actions.githubusercontent.com/abc/", "https://github.com"),
        ("https://broker.actions.githubusercontent.com:443/x", "https://github.com"),
        ("https://github.com/_services/x", "https://github.com"),
        ("https://pipelines.actions.acme.ghe.com/abc", "https://acme.ghe.com"),
        ("https://ghe.acme.test/_services/pipelines/x/", "https://GHE.acme.test/"),
        ("https://ghe.acme.test:8443/x", "https://ghe.acme.test:8443"),
        ("http://127.0.0.1:4100/tenant/", "http://127.0.0.1:4100"),
    ],
)
def test_githubs_hosts_and_the_configured_one_are_trusted(url: str, home: str) -> None:
    assert str(trusted(url, home)).startswith(("http://", "https://"))


@pytest.mark.parametrize(
    ("url", "home"),
    [
        ("https://evil.test/", "https://github.com"),
        ("https://github.com.evil.test/", "https://github.com"),
        ("https://evilgithubusercontent.com/", "https://github.com"),
        ("https://githubusercontent.com/", "https://github.com"),
        ("http://pipelines.actions.githubusercontent.com/", "https://github.com"),
        ("https://pipelines.actions.githubusercontent.com:8443/", "https://github.com"),
        ("https://x.githubusercontent.com@evil.test/", "https://github.com"),
        ("https://evil.test\\@x.githubusercontent.com/", "https://github.com"),
        ("https://user:word@github.com/", "https://github.com"),
        ("https://evil.test#.ghe.com", "https://github.com"),
        ("http://github.com/", "https://github.com"),
        ("http://127.0.0.1:4101/", "http://127.0.0.1:4100"),
        ("https://xn--evil.ghe.com/", "https://github.com"),
        ("//github.com/", "https://github.com"),
        ("file:///etc/passwd", "https://github.com"),
        ("https://[x", "https://github.com"),
        ("", "https://github.com"),
    ],
)
def test_no_other_address_is_trusted(url: str, home: str) -> None:
    with pytest.raises(Refused, match="GitHub answered with"):
        trusted(url, home)


@pytest.mark.parametrize(
    ("url", "joined"),
    [
        ("https://github.com/a", "https://github.com/a/7"),
        ("https://github.com/a/?b=c%2Fd", "https://github.com/a/7?b=c%2Fd"),
        ("https://github.com/a%2Fb?c", "https://github.com/a%2Fb/7?c"),
        ("https://github.com", "https://github.com/7"),
    ],
)
def test_a_path_is_put_before_the_query(url: str, joined: str) -> None:
    assert str(below(trusted(url, "https://github.com"), "7")) == joined
