"""The hosts that get a token of the scale sets' service. GitHub answers with their addresses; a forged answer must not
send a token anywhere else."""

from typing import TYPE_CHECKING

from bullpen.errors import Refused

if TYPE_CHECKING:
    import httpx

SUFFIXES = (".githubusercontent.com", ".ghe.com")  # GitHub's own


def trusted(url: str, home: str) -> "httpx.URL":
    """An address that GitHub answered with; `home` is `github.url`. Raise Refused unless it is GitHub's or home's."""
    import httpx

    try:
        found, own = httpx.URL(url), httpx.URL(home)
        is_own = found.host != "" and _origin(found) == _origin(own)
        is_githubs = found.host.endswith(SUFFIXES) and _origin(found) == ("https", found.host, 443)
        where = f"{found.scheme[:16]}://{found.host[:80]}"
    except (httpx.InvalidURL, ValueError):
        raise Refused("GitHub answered with an address that is no URL") from None
    if found.userinfo or not (is_own or is_githubs):
        allowed = f"{own.host}, {' and '.join(f'*{suffix}' for suffix in SUFFIXES)}"
        remedy = "Correct github.url; if it is right, do not use this network."
        raise Refused(f"GitHub answered with {where}: tokens are sent to {allowed} only", remedy=remedy)
    return found


def below(url: "httpx.URL", path: str) -> "httpx.URL":
    """The address with `/path` behind its own, and with its query."""
    own, mark, query = url.raw_path.partition(b"?")
    return url.copy_with(raw_path=own.rstrip(b"/") + b"/" + path.encode("ascii") + mark + query)


def _origin(url: "httpx.URL") -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"https": 443, "http": 80}.get(url.scheme)
