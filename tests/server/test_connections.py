"""What greedy, slow and odd clients meet: bounds that hold before anything is known of them."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from uvicorn.server import ServerState

from bullpen.server.heartbeats import BATCH, LARGEST
from bullpen.server.protocol import LARGEST_HEAD, LINGER, MOST_TOLD, PATIENCE, STUCK, TURN, Connection
from server.fixtures import House, a_house
from server.wired import Wire, bearer, beat, chunks, request

pytestmark = pytest.mark.real_loop
WITH_BODY = ["/v1/heartbeats", "/v1/heartbeats/batch", "/v1/jobs", "/v1/runs/r/provision", "/v1/unknown"]


async def until(happened: Callable[[], object]) -> None:
    async with asyncio.timeout(120):
        while not happened():  # noqa: ASYNC110 - the turns of the loop are what is waited for
            await asyncio.sleep(0)


async def after(wire: Wire, count: int) -> None:
    """Turn the loop until so many answers have come."""
    await until(lambda: len(wire.statuses) >= count)


async def guarded(house: House) -> Wire:
    house.guard()
    return Wire(house)


# ---- the caller and the length, before any of the body


@pytest.mark.parametrize("path", WITH_BODY)
async def test_a_client_without_a_token_is_refused_before_it_sends_its_body(tmp_path: Path, path: str) -> None:
    async with a_house(tmp_path) as house:
        wire = await guarded(house)
        wire.send(request(path, None))
        await wire.turns()
        assert wire.statuses == [401]
        assert wire.half_closed  # so that the client reads the answer while it still sends


@pytest.mark.parametrize(
    ("path", "largest"),
    [
        ("/v1/heartbeats", 128 * 1024),
        ("/v1/heartbeats/batch", 4 * 1024 * 1024),
        ("/v1/jobs", 1024 * 1024),
        ("/v1/oidc/token", 16 * 1024),
        ("/v1/oidc/token/", 16 * 1024),
        ("/v1/agents/token", 8 * 1024),
        ("/v1/github/webhook", 1024 * 1024),
        ("/healthz", 0),
    ],
)
async def test_a_declared_length_over_the_limit_is_refused_at_once(tmp_path: Path, path: str, largest: int) -> None:
    async with a_house(tmp_path) as house:
        wire = await guarded(house)
        head = request(path, b"", bearer(house, "admin")).replace(b"Length: 0", b"Length: %d" % (largest + 1))
        wire.send(head)
        await wire.turns()
        assert wire.statuses == [413]
        assert str(largest).encode() in wire.received


async def test_what_a_refused_client_still_sends_is_thrown_away_for_a_while(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        wire = await guarded(house)
        wire.send(request("/v1/jobs", None), *[chunks(b"x" * 1000)] * 10)
        await wire.turns()
        assert wire.statuses == [401]
        assert not wire.closed
        wire.connection.check(asyncio.get_running_loop().time() + LINGER + 1)
        assert wire.aborted


async def test_a_refused_request_without_a_body_leaves_the_connection_usable(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        wire = await guarded(house)
        wire.send(request("/v1/status", b"", method="GET"), request("/v1/status", b"", method="HEAD"))
        wire.send(request("/healthz", b"", method="GET"))
        await after(wire, 3)
        assert wire.statuses == [401, 401, 200]
        assert wire.received.count(b"a token is needed") == 1  # a HEAD is answered without content


@pytest.mark.parametrize("path", ["/v1/heartbeats/batch", "/v1/github/webhook", "/v1/jobs"])
async def test_a_chunked_body_is_refused_once_it_is_over_the_limit(tmp_path: Path, path: str) -> None:
    async with a_house(tmp_path) as house:
        wire = await guarded(house)
        wire.send(request(path, None, bearer(house, "admin")))
        sent = 0
        while not wire.statuses and sent <= LARGEST[BATCH]:
            if wire.paused:
                await asyncio.sleep(0)
                continue
            wire.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
            sent += 65536
            await wire.turns(5)
        await after(wire, 1)
        assert wire.statuses == [404 if "github" in path else 413]  # this server expects no webhooks


# ---- the loop is never held up


async def test_one_turn_of_the_loop_parses_a_bounded_number_of_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[int] = []
    before: Any = Connection.on_body

    def on_body(self: Connection, body: bytes) -> None:
        parsed.append(len(body))
        before(self, body)

    monkeypatch.setattr(Connection, "on_body", on_body)
    async with a_house(tmp_path) as house:
        wire = await guarded(house)
        content = json.dumps({"heartbeats": [{"workerInstanceKey": f"w-{n}"} for n in range(1000)]}).encode()
        wire.send(request(BATCH, None, bearer(house, "admin")), chunks(content))
        assert len(parsed) <= TURN // 6 + 1  # a byte in a chunk of its own takes six on the wire
        assert wire.paused
        turns = 0
        while not wire.statuses:
            had = len(parsed)
            await asyncio.sleep(0)
            assert len(parsed) - had <= 2 * (TURN // 6 + 1)
            turns += 1
        assert wire.statuses == [200]
        assert sum(parsed) == len(content)
        assert turns >= len(content) * 6 // TURN
        assert not wire.paused


async def test_others_are_served_between_the_chunks_of_a_large_body(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        greedy, modest = await guarded(house), Wire(house)
        greedy.send(request(BATCH, None, bearer(house, "admin")), chunks(b" " * 200_000))
        modest.send(request("/healthz", b"", method="GET"))
        await after(modest, 1)
        assert modest.statuses == [200]
        assert greedy.statuses == []


# ---- one request at a time


async def test_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        sent = b"".join(
            [
                beat("a"),
                request("/healthz", b"", method="GET"),
                request("/v1/heartbeats", None) + chunks(b'{"workerInstanceKey":"b"}', 7),
                b"\r\n",
                request("/v1/unknown", b"", method="GET"),
                beat("c", "Connection: close"),
            ]
        )
        for at in range(0, len(sent), 3):  # every end of a request is cut somewhere
            await until(lambda: not wire.paused)
            wire.send(sent[at : at + 3])
        await after(wire, 5)
        assert wire.statuses == [200, 200, 200, 404, 200]
        assert wire.closed


async def test_beats_whose_heads_repeat_are_answered_however_they_are_cut(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        other = request("/healthz", b"", method="GET")
        keys = iter("abcdefghijkl")
        sent = [
            [beat(next(keys))],
            [beat(next(keys))],
            [other, beat(next(keys))],
            [b"\r\n", beat(next(keys))],
            [(whole := beat(next(keys)))[:20], whole[20:]],
            [(whole := beat(next(keys)))[:-5], whole[-5:]],
            [beat(next(keys)) + beat(next(keys))],
            [beat(next(keys)), beat(next(keys))],  # the second while the first is being answered
            [beat(next(keys)) + other[:10], other[10:]],
            [beat(next(keys), "Connection: close")],
        ]
        for parts in sent:
            for part in parts:
                await until(lambda: not wire.paused)
                wire.send(part)
            await wire.turns()
        await after(wire, 14)
        assert wire.statuses == [200] * 14
        assert wire.closed
        assert len(await house.ports.workers.workers(list("abcdefghijkl"))) == 12


async def test_every_beat_is_admitted_even_if_its_head_repeats(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        for number, key in enumerate("ab", 1):
            wire.send(beat(key))
            await after(wire, number)
        house.guard()  # the server needs a token from now on
        wire.send(beat("c"))
        await after(wire, 3)
        assert wire.statuses == [200, 200, 401]
        assert "c" not in await house.ports.workers.workers(["c"])


async def test_beats_of_a_client_that_reads_no_answers_are_held_back(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        wire.reads = False
        wire.send(beat("w") * 200)
        await until(lambda: wire.connection.flow.write_paused)
        answered = len(wire.statuses)
        assert 0 < answered < 200
        assert wire.paused
        await wire.turns(500)
        assert len(wire.statuses) == answered
        wire.drain()
        await after(wire, 200)
        assert len(wire.statuses) == 200
        assert not wire.paused


async def test_a_client_that_takes_no_byte_for_long_is_cut_off(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        wire.reads = False
        wire.send(beat())
        await after(wire, 1)
        now = asyncio.get_running_loop().time()
        wire.connection.check(now)
        wire.connection.check(now + STUCK - 1)
        assert not wire.closed
        wire.connection.check(now + STUCK + 1)
        assert wire.aborted


@pytest.mark.parametrize("path", ["/v1/heartbeats", "/healthz"])
async def test_a_connection_is_kept_between_requests_and_closed_when_it_stays_idle(tmp_path: Path, path: str) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        loop, kept = asyncio.get_running_loop(), wire.connection.timeout_keep_alive
        for answers in (1, 2):
            wire.send(beat() if path == "/v1/heartbeats" else request(path, b"", method="GET"))
            await after(wire, answers)
            wire.connection.check(loop.time() + kept - 1)
            assert not wire.closed
        wire.connection.check(loop.time() + kept + 1)
        assert wire.closed


@pytest.mark.parametrize("stray", [b"\n", b"\r\n", b"G", b"GET /healthz HTTP/1.1\r\n"])
async def test_a_stray_byte_does_not_hold_a_connection(tmp_path: Path, stray: bytes) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        wire.send(request("/healthz", b"", method="GET"))
        await after(wire, 1)
        wire.send(stray)
        loop = asyncio.get_running_loop()
        wire.connection.check(loop.time() + PATIENCE - 1)
        assert not wire.half_closed
        if stray.isspace():
            wire.send(stray)  # more of them do not begin the time again
        wire.connection.check(loop.time() + PATIENCE + 1)
        assert wire.half_closed
        assert wire.statuses == [200, 408]


async def test_a_connection_that_was_to_be_upgraded_ends_with_its_answer(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        upgrade = request("/healthz", b"", "Upgrade: websocket", "Connection: Upgrade", method="GET")
        wire.send(upgrade + beat())
        await after(wire, 1)
        await wire.turns()
        assert wire.statuses == [200]
        assert wire.closed
        assert await house.is_untouched()


@pytest.mark.parametrize("path", ["/v1/heartbeats", "/v1/runs/r/release"])
async def test_a_request_with_a_body_that_was_to_be_upgraded_is_refused(tmp_path: Path, path: str) -> None:
    """The parser ends it with its headers: without its body it would be another request."""
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        wire.send(request(path, b'{"workerInstanceKey":"w"}', "Upgrade: h2c", "Connection: Upgrade"))
        await wire.turns(50)
        assert wire.statuses == [400]
        assert b"Upgrade" in wire.received
        assert wire.half_closed
        assert await house.is_untouched()
        assert not list((house.context.home / "operations").glob("op-*"))


async def test_clients_above_the_limit_hold_a_bounded_number_of_descriptors(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        state = ServerState()
        wires = [Wire(house, state, most=2) for _ in range(2 + MOST_TOLD + 3)]
        assert [wire.statuses for wire in wires[:3]] == [[], [], [503]]
        assert [wire.aborted for wire in wires] == [False] * (2 + MOST_TOLD) + [True] * 3


# ---- what was refused is not carried out


@pytest.mark.parametrize("size", [LARGEST_HEAD, 3 * LARGEST_HEAD, 20 * LARGEST_HEAD])
@pytest.mark.parametrize("path", ["/v1/heartbeats", "/v1/runs/r/release"])
async def test_a_request_whose_headers_are_too_large_is_not_carried_out(tmp_path: Path, path: str, size: int) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        body = b'{"workerInstanceKey":"w"}' if "beats" in path else b""
        wire.send(request(path, body, f"X-Large: {'x' * size}"))
        await wire.turns(50)
        assert wire.statuses == [431]
        assert await house.is_untouched()
        assert not list((house.context.home / "operations").glob("op-*"))


async def test_a_header_without_an_end_is_refused(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        wire.send(b"GET /healthz HTTP/1.1\r\nX: ", *[b"x" * 1024] * 20)
        assert wire.statuses == [431]


async def test_a_trailer_without_an_end_is_refused(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        wire.send(request("/v1/heartbeats", None), b"2\r\n{}\r\n0\r\nX: ")
        for _ in range(20):
            wire.send(b"x" * 1024)
            await wire.turns(3)
        assert wire.statuses == [431]


async def test_a_small_chunk_header_before_a_large_piece_is_no_endless_trailer(tmp_path: Path) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        body = b'{"workerInstanceKey":"w"%s}' % (b" " * 3 * TURN)
        wire.send(request("/v1/heartbeats", None), b"%x\r\n" % len(body), body + b"\r\n")
        await until(lambda: not wire.paused)
        wire.send(b"0\r\n\r\n")
        await after(wire, 1)
        assert wire.statuses == [200]


@pytest.mark.parametrize("path", ["/v1/heartbeats", "/v1/jobs"])
async def test_trailers_do_not_count_as_headers(tmp_path: Path, path: str) -> None:
    async with a_house(tmp_path) as house:
        body = chunks(b'{"workerInstanceKey":"w","runId":"r","command":["true"]}')[:-2]
        wire = Wire(house)
        wire.send(request(path, None), body + b"Origin: http://evil.example\r\nX: y\r\n\r\n")
        await after(wire, 1)
        headers = [name for name, _ in wire.connection.headers]
        assert b"origin" not in headers
        assert b"x" not in headers
        wire = await guarded(house)
        wire.send(request(path, None), body + f"{bearer(house, 'admin')}\r\n\r\n".encode())
        await after(wire, 1)
        assert wire.statuses == [401]


@pytest.mark.parametrize("path", ["/v1/runs/r/release", "/v1/heartbeats"])
async def test_a_body_whose_end_cannot_be_found_is_refused_and_not_carried_out(tmp_path: Path, path: str) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        wire.send(request(path, None).replace(b"chunked", b"gzip") + b'{"workerInstanceKey":"w"}')
        await wire.turns(50)
        assert wire.statuses == [400]
        assert await house.is_untouched()
        assert not list((house.context.home / "operations").glob("op-*"))


@pytest.mark.parametrize("sent", [b"Encoding: chunked\t\r\n\r\n0\r\n\r\n", b"Encoding: chunked\r\n\r\nZZ\r\n\r\n"])
async def test_a_request_that_is_refused_as_its_body_begins_is_not_carried_out(tmp_path: Path, sent: bytes) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        wire.send(request("/v1/runs/r/release", None).partition(b"Encoding")[0] + sent)
        await wire.turns(50)
        assert wire.statuses == [400]
        assert not list((house.context.home / "operations").glob("op-*"))


async def test_a_slow_body_ends_in_an_answer_and_logs_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_house(tmp_path) as house:
        wire = Wire(house)
        wire.send(request("/v1/jobs", None), b"1\r\n{\r\n")
        await wire.turns(50)
        wire.connection.check(asyncio.get_running_loop().time() + PATIENCE + 1)
        await wire.turns(50)
        assert wire.statuses == [408]
        assert "Traceback" not in caplog.text
        assert "ERROR" not in caplog.text
