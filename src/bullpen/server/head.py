"""The headers of a request by which it is admitted, refused, and read to its end."""

from collections.abc import Iterable
from typing import TypeAlias

from bullpen.lazy_dataclass import dataclass
from bullpen.server.problems import bad_input

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
READING = frozenset({"GET", "HEAD"})


@dataclass(slots=True)
class Head:
    """The headers that decide. `length` is None where none is declared; `site` is what a browser says of where the
    request comes from (`Sec-Fetch-Site`). Without a method it counts as one that writes."""

    authorization: str | None = None
    host: str | None = None
    origin: str | None = None
    length: int | None = None
    chunked: bool = False
    cookie: str | None = None
    site: str | None = None
    method: str = ""

    @property
    def has_body(self) -> bool:
        return self.chunked or bool(self.length)

    @property
    def writes(self) -> bool:
        return self.method not in READING


def head_of(headers: Headers) -> Head:
    """Raise a 400 for a length or an encoding by which the end of the body cannot be found."""
    head = Head()
    for name, value in headers:
        if name == b"authorization":
            head.authorization = value.decode("latin-1")
        elif name == b"host":
            head.host = value.decode("latin-1")
        elif name == b"origin":
            head.origin = value.decode("latin-1")
        elif name == b"content-length":
            if not value.isdigit() or len(value) > 18:
                raise bad_input("Content-Length: not a number of bytes", "content-length", value.decode("latin-1"))
            head.length = int(value)
        elif name == b"transfer-encoding":
            if value.strip().lower() != b"chunked":
                # The parser would refuse it too, but only once the request has begun.
                raise bad_input("unknown Transfer-Encoding", "transfer-encoding", value.decode("latin-1"), "chunked")
            head.chunked = True
        elif name == b"cookie":  # several of them are one list that was cut
            text = value.decode("latin-1")
            head.cookie = text if head.cookie is None else f"{head.cookie}; {text}"
        elif name == b"sec-fetch-site":
            head.site = value.decode("latin-1")
    return head
