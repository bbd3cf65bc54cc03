"""Log lines: fields as key-value pairs or JSON, what is logged at which level, and what never is."""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click
import pytest

from bullpen.cli.program import program
from bullpen.errors import Conflict
from bullpen.model import instance
from bullpen.pool.change_log import LEVELS, with_change_log
from bullpen.structured_log import FieldLogger, Format, JsonLines, Level, TextLines, get_logger, happened, set_up
from fixtures import a_world, provisioned, released, small


@pytest.fixture(autouse=True)
def root() -> Iterator[logging.Logger]:
    """The root logger, put back as it was."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield root
    root.handlers[:], root.level = handlers, level


def record(log: FieldLogger, caplog: pytest.LogCaptureFixture, event: str, **fields: Any) -> logging.LogRecord:
    with caplog.at_level(logging.DEBUG):
        log.info(event, **fields)
    return caplog.records[-1]


def test_a_text_line_has_the_event_and_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    one = record(
        get_logger("bullpen.server"), caplog, "run released", run="4711", runners=2, reason="it is over", of=None
    )
    line = TextLines().format(one)
    assert line.endswith('Z INFO    server: run released run=4711 runners=2 reason="it is over"')
    assert line[:5] == f"{one.created and line[:4]}-"
    assert TextLines(brief=True).format(one) == 'bullpen: info: run released run=4711 runners=2 reason="it is over"'


def test_a_json_line_has_the_same_fields_with_their_types(caplog: pytest.LogCaptureFixture) -> None:
    one = record(get_logger("bullpen.server"), caplog, "run released", run="4711", runners=2)
    line = json.loads(JsonLines().format(one))
    assert line | {"time": ""} == {
        "time": "",
        "level": "info",
        "logger": "bullpen.server",
        "event": "run released",
        "run": "4711",
        "runners": 2,
    }


def test_an_event_is_logged_with_its_fields_and_told_to_people_with_its_reason_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    event = happened("label released", run="4711", of=None, reason="it is over", label="4711-small")
    with caplog.at_level(logging.INFO):
        event.log(get_logger("bullpen.server"), logging.INFO, controller="runs")
    assert caplog.records[-1].getMessage() == (
        'label released controller=runs run=4711 reason="it is over" label=4711-small'
    )
    assert str(event) == "label released (run 4711, label 4711-small): it is over"
    assert event == happened("label released", run=4711, reason="it is over", label="4711-small")


def test_lines_of_libraries_are_json_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        logging.getLogger("uvicorn.error").info("started %d", 7)
    assert json.loads(JsonLines().format(caplog.records[-1]))["event"] == "started 7"


@pytest.mark.parametrize("hostile", ["a\nERROR forged", "a\r\x1b[2Jb", "a\x85b"])
@pytest.mark.parametrize("lines", [TextLines(), JsonLines()])
def test_a_text_from_outside_stays_on_its_line(
    caplog: pytest.LogCaptureFixture, hostile: str, lines: logging.Formatter
) -> None:
    one = record(get_logger("bullpen.server"), caplog, hostile, field=hostile, other="50% done")
    line = lines.format(one)
    assert [letter for letter in line if not letter.isprintable()] == []
    assert "50% done" in line


def test_a_traceback_is_part_of_its_line(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        with caplog.at_level(logging.ERROR):
            get_logger("bullpen.server").exception("request failed", path="/v1/runs")
    assert "RuntimeError: broken" in json.loads(JsonLines().format(caplog.records[-1]))["traceback"]
    assert TextLines().format(caplog.records[-1]).count("RuntimeError: broken") == 1


def test_the_level_decides_what_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    set_up(Level.WARNING, Format.TEXT)
    log = get_logger("bullpen.server")
    log.info("not shown")
    log.warning("shown", field=1)
    logging.getLogger("httpx").info("not shown either")
    assert capsys.readouterr().err.splitlines()[0].endswith("WARNING server: shown field=1")


def test_libraries_that_report_each_request_are_quieter_and_never_louder(capsys: pytest.CaptureFixture[str]) -> None:
    for level, written in ((Level.ERROR, ["failed"]), (Level.DEBUG, ["warned", "failed"])):
        set_up(level, Format.TEXT)
        library = logging.getLogger("botocore.endpoint")
        library.debug("sent")
        library.warning("warned")
        library.error("failed")
        assert [line.rpartition(": ")[2] for line in capsys.readouterr().err.splitlines()] == written


@pytest.mark.parametrize("format", Format)
def test_without_a_stderr_nothing_is_logged_and_nothing_fails(format: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)  # as in `bullpen status 2>&-`
    set_up(Level.DEBUG, format)
    get_logger("bullpen.test").error("store cannot be read", error="x")


def test_the_options_offer_every_level_and_format() -> None:
    offered = {option.name: option.type for option in program.params}
    for name, known in (("log_level", Level), ("log_format", Format)):
        choice = offered[name]
        assert isinstance(choice, click.Choice)
        assert list(choice.choices) == [one.value for one in known]


async def test_each_landed_change_is_logged_once_at_its_level(caplog: pytest.LogCaptureFixture) -> None:
    async with a_world(settings=small()) as world:
        ports = world.ports()
        ports = replace(ports, records=with_change_log(ports.records))
        with caplog.at_level(logging.DEBUG, logger="bullpen.records"):
            outcome = await provisioned(world, "4711", 1, ports)
            await released(world, "4711", ports)
        (id,) = (member.instance.id for member in outcome.members)
        lines = [(one.levelname, one.__dict__["event"], one.__dict__["fields"]) for one in caplog.records]
        assert [event for level, event, _ in lines if level == "INFO"] == ["provision opened", "provision committed"]
        of_instance = [
            fields["step"] for level, _, fields in lines if level == "DEBUG" and fields.get("instance") == id
        ]
        assert of_instance == [line.step for line in (await ports.records.stories([id]))[id]]


async def test_a_change_that_did_not_land_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with a_world(settings=small()) as world:
        ports = world.ports()
        records = with_change_log(ports.records)
        (id,) = (member.instance.id for member in (await provisioned(world, "4711", 1)).members)
        seen = (await ports.records.instances([id]))[id]
        event = instance.Expired(at=ports.clock.now(), by="test", why="its test is over", round=seen.round)
        with caplog.at_level(logging.INFO, logger="bullpen.records"):
            first, second = await records.apply_each([instance.expire(seen, event)] * 2)
            with pytest.raises(Conflict):
                await records.apply(instance.expire(seen, event))
        assert isinstance(second, Conflict)
        assert not isinstance(first, Conflict)
        assert [one.getMessage() for one in caplog.records] == [
            f"instance discarded instance={id} run=4711 step=expire state=running->terminated"
            ' by=test reason="its test is over"'
        ]


async def test_a_change_that_landed_is_answered_even_if_it_cannot_be_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **fields: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(FieldLogger, "log", fail)
    monkeypatch.setattr(FieldLogger, "isEnabledFor", lambda logger, level: True)
    async with a_world(settings=small()) as world:
        ports = replace(world.ports(), records=with_change_log(world.ports().records))
        assert (await provisioned(world, "run", 1, ports=ports)).succeeded


def test_what_ends_a_lease_a_provision_or_an_instance_is_more_than_debug() -> None:
    assert {event for level, event in LEVELS.values() if level == logging.WARNING} >= {"lease lost"}
