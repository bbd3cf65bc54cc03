"""Paths of requests: a slash that belongs to an id is `%2F` in it, and must not look like the end of a part.

    /v1/runs/feature%2Fx/provision ──▶ routed: the same; everything else is decoded
                                  ──▶ run_id: feature/x, once the route is found

The gate and the router see the same spelling, so a request cannot be admitted as one endpoint and served as another.
Only the ids that may have slashes get them: others name files, and stay what no id is.
"""

from typing import Any
from urllib.parse import unquote

from litestar.types import ASGIApp, Receive, Scope, Send

MAY_HAVE_SLASHES = frozenset({"run_id", "key", "subject"})


def routed(raw: bytes) -> str:
    """The path as the router reads it: decoded, but for slashes and percent signs within a part."""
    text = raw.decode("ascii", "replace")
    if "%" not in text:
        return text
    return "/".join(unquote(part).replace("%", "%25").replace("/", "%2F") for part in text.split("/"))


def with_slashes(app: ASGIApp) -> ASGIApp:
    """Middleware, behind the router: the parameters of the path as their callers mean them."""

    async def decoded(scope: Scope, receive: Receive, send: Send) -> None:
        found: dict[str, Any] = scope.get("path_params") or {}
        if any("%" in str(value) for value in found.values()):
            scope["path_params"] = {
                name: unquote(value) if name in MAY_HAVE_SLASHES else value for name, value in found.items()
            }
        await app(scope, receive, send)

    return decoded
