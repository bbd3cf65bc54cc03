"""The files of the dashboard: what a browser gets, under which headers, and that nothing else of the disk is served."""

from __future__ import annotations

import gzip
import zipfile
from http.client import HTTPConnection
from pathlib import Path

import pytest

from bullpen.server.dashboard_files import FOLDER, TYPES, files
from installed import built, wheel
from server.fixtures import a_house
from server.served import PATIENCE, a_server

__all__ = ["built", "wheel"]  # the fixtures

POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "font-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
}
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def paths() -> list[str]:
    return ["/", *(f"/dashboard/{name}" for name in files())]


def is_protected(headers: dict[str, str]) -> bool:
    policy = {part.strip() for part in headers.get("content-security-policy", "").split(";")}
    return policy == POLICY and HEADERS.items() <= headers.items()


async def test_every_file_has_its_type_its_tag_and_every_protection(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        for path in paths():
            answer = await house.ask("GET", path)
            name = path.removeprefix("/dashboard/") if path != "/" else "index.html"
            assert (answer.status_code, answer.content) == (200, (FOLDER / name).read_bytes())
            assert answer.headers["content-type"] == TYPES[Path(name).suffix]
            assert answer.headers["etag"].startswith('"')
            assert answer.headers["cache-control"] == "no-cache"
            assert is_protected(dict(answer.headers)), path


async def test_the_protections_hold_for_what_is_not_sent_too(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        tag = (await house.ask("GET", "/")).headers["etag"]
        same = await house.ask("GET", "/", headers={"if-none-match": f'"other", W/{tag}'})
        assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        missing = await house.ask("GET", "/dashboard/missing.js")
        assert (missing.status_code, missing.json()["code"]) == (404, "no-such-endpoint")
        for answer in (same, missing, await house.ask("GET", "/dashboard")):
            assert is_protected(dict(answer.headers))


async def test_a_file_that_changed_is_sent_again(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        assert (await house.ask("GET", "/", headers={"if-none-match": '"of-another-release"'})).status_code == 200


@pytest.mark.parametrize(
    ("accepted", "is_compressed"),
    [
        ("gzip, deflate, br", True),
        ("*", True),
        ("identity", False),
        ("gzip;q=0", False),
        ("", False),
        ("gzipped", False),
    ],
)
async def test_a_file_is_compressed_for_a_client_that_takes_it(
    tmp_path: Path, accepted: str, is_compressed: bool
) -> None:
    async with a_house(tmp_path) as house:
        plain = await house.ask("GET", "/", headers={"accept-encoding": "identity"})
        answer = await house.ask("GET", "/", headers={"accept-encoding": accepted})
        assert answer.content == plain.content  # the client decompresses
        assert (answer.headers.get("content-encoding") == "gzip") is is_compressed
        assert answer.headers["vary"] == "accept-encoding"
        assert (answer.headers["etag"] == plain.headers["etag"]) is not is_compressed
        if is_compressed:
            assert int(answer.headers["content-length"]) < len(plain.content)


def test_what_is_compressed_is_the_file() -> None:
    for one in files().values():
        assert not one.compressed or gzip.decompress(one.compressed) == one.content


WAYS_OUT = (
    "/dashboard/../app.py",
    "/dashboard/%2e%2e/app.py",
    "/dashboard/..%2fapp.py",
    "/dashboard/%2e%2e%2fapp.py",
    "/dashboard/%252e%252e%252fapp.py",
    "/dashboard/..%5capp.py",
    "/dashboard//etc/passwd",
    "/dashboard/%2fetc%2fpasswd",
    "/dashboard/index.html%00.js",
    "/dashboard/./../gate.py",
    "/dashboard/index.html/..",
    "/dashboard/..",
)


@pytest.mark.slow
def test_no_path_leads_out_of_the_folder(tmp_path: Path) -> None:
    """As raw bytes on a socket: clients tidy paths up before they send them."""
    with a_server(tmp_path / "home") as server:
        for path in WAYS_OUT:
            with server.connect() as socket:
                socket.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
                said = b"".join(iter(lambda at=socket: at.recv(65536), b""))  # type: ignore[misc]
            assert int(said.split()[1]) in (400, 404), path
            assert b"import" not in said
            assert b"root:" not in said


async def test_a_file_needs_no_token_and_everything_else_still_does(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        house.guard()
        assert (await house.ask("GET", "/")).status_code == 200
        for path in ("/v1/status", "/dashboards", "/dashboard/../v1/status", "/v1/events", "/index.html"):
            assert (await house.ask("GET", path)).status_code in (401, 404), path
        assert (await house.ask("GET", "/v1/status")).status_code == 401
        assert (await house.ask("GET", "/dashboards")).status_code == 401


async def test_the_files_are_read_only_and_take_no_body(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        for method in ("POST", "PUT", "DELETE"):
            assert (await house.ask(method, "/")).status_code == 405


@pytest.mark.slow
def test_a_head_request_gets_the_headers_alone(tmp_path: Path) -> None:
    with a_server(tmp_path / "home") as server:
        connection = HTTPConnection(*server.address, timeout=PATIENCE)
        connection.request("HEAD", "/")
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, b"")
        assert is_protected({name.lower(): value for name, value in answer.getheaders()})
        connection.request("GET", "/")  # on the same connection: the answer before had no body
        assert connection.getresponse().status == 200
        connection.close()


@pytest.mark.slow
def test_the_wheel_has_every_file_of_the_dashboard(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"bullpen/server/dashboard/{name}" for name in files()} <= names
