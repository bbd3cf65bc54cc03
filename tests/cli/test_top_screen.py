"""What `bullpen top` draws, and how keys change it: without a terminal."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from builders import NOW, on_offer, open_provision, running, wait
from bullpen import inventory
from bullpen.cli.cells import fitted, safe, width_of
from bullpen.cli.full_screen import SELECTED, FullScreen
from bullpen.cli.keys import KeyReader
from bullpen.cli.top_screen import TopScreen
from bullpen.config import Settings
from bullpen.engines.memory import Memory
from bullpen.model.instance import CLAIMED, RUNNING
from bullpen.model.wait import WaitCause, WaitKind
from bullpen.schema.instance import InstanceAnswer
from bullpen.schema.pause import PauseAnswer
from bullpen.schema.queue import QueueAnswer
from bullpen.schema.status import PoolAnswer, PoolStatus, pool_status_of
from bullpen.schema.why import WaitAnswer
from emulated_terminal import ScreenPicture

SIZE = (80, 24)


def a_pool() -> PoolStatus:
    async def look() -> PoolStatus:
        ports = Memory().ports()
        await ports.records.apply(open_provision())
        for change in (*running("i-1"), *on_offer("i-2", provision_id="p-1")):
            await ports.records.apply(change)
        (waiting,) = await ports.records.apply(open_provision("p-2", run_id="later", want=3))
        await ports.records.apply(wait(waiting, until=9e8))
        return pool_status_of(await inventory.status(ports, Settings()), location="/srv/pool")

    return asyncio.run(look())


def with_instances(count: int, **changed: Any) -> PoolStatus:
    found = a_pool()
    one: InstanceAnswer = msgspec.structs.replace(found.instances[0], **changed)
    many = [msgspec.structs.replace(one, id=f"i-{number:04}") for number in range(count)]
    return msgspec.structs.replace(found, instances=many)


def a_screen(found: PoolStatus | None = None, keys: str = "", **options: Any) -> TopScreen:
    top = TopScreen(**options)
    top.update(found or a_pool())
    top.frame(NOW, SIZE)
    pressed(top, *keys)
    return top


def pressed(top: TopScreen, *keys: str) -> list[str]:
    for key in keys:
        top.press(key)
    return lines(top)


def lines(top: TopScreen, size: tuple[int, int] = SIZE) -> list[str]:
    return [text.rstrip() for text, _ in top.frame(NOW, size)]


def selected(top: TopScreen) -> str:
    (row,) = [text for text, style in top.frame(NOW, SIZE) if style == SELECTED]
    return row.split()[0]


# ---- views


def test_the_four_views_show_pools_runs_instances_and_waits() -> None:
    top = a_screen()
    assert lines(top)[0] == "2 runs, 2 instances, 1 at a cap  /srv/pool"
    assert lines(top)[2].split() == ["POOL", "CLAIMABLE", "TICKETS", "BOOTING", "IDLE", "CLAIMED", "RUNNING", "TARGET"]
    assert pressed(top, "tab")[2].split()[:3] == ["RUN", "STATE", "RUNNERS"]
    assert pressed(top, "tab")[2].split()[:3] == ["INSTANCE", "STATE", "RUN"]
    assert pressed(top, "tab")[2:4] == [
        "WAITS  RUN    CLASS  SINCE  CAUSE  BECAUSE",
        "p-2    later  small  0s     cap    room under limits.max-instances",
    ]
    assert pressed(top, "tab")[1].startswith("[pools]")
    assert pressed(top, "back-tab")[1].startswith(" pools  runs  instances [waits]")
    assert pressed(top, "3")[1].startswith(" pools  runs [instances]")


def test_the_waits_show_the_cause_of_each_once_it_is_known() -> None:
    top = a_screen(keys="4")
    assert top.lacks_waits
    why = "no machine to be launched"
    wait = WaitAnswer("p-2", WaitKind.RUN, "later", "", "small", None, WaitCause.NO_CAPACITY, why, "", None)
    top.update_waits(QueueAnswer([wait], 2, [], [], None))
    assert not top.lacks_waits
    assert "3 waits" in lines(top)[0]
    assert lines(top)[3].split()[:6] == ["p-2", "later", "small", "-", "no-capacity", "no"]
    assert not a_screen(keys="3").lacks_waits


def test_a_pause_is_named_in_the_first_line() -> None:
    pauses = [PauseAnswer("", "broken image", None, "ops"), PauseAnswer("large", "", None, "ops")]
    top = a_screen(msgspec.structs.replace(a_pool(), pauses=pauses))
    assert lines(top)[0] == "2 runs, 2 instances, 1 at a cap  PAUSED: whole pool, large  /srv/pool"


def test_an_empty_view_says_what_to_do() -> None:
    empty = msgspec.structs.replace(a_pool(), runs=[], instances=[], waiting=[], pools=[])
    shown = [a_screen(empty, key) for key in "1234"]
    assert [lines(top)[3] for top in shown] == [
        "No class is configured.",
        "No run has runners, or waits for any. `bullpen provision` gets some.",
        "No instance lives. Raise an idle-target to keep some warm, or run",
        "Nothing waits.",
    ]


def test_the_pools_show_the_target_of_the_schedule() -> None:
    found = a_pool()
    pool = PoolAnswer("small", 1, False, 1, 8, "weekdays 08:00-18:00 UTC", 2, "2030-01-01T02:00:00Z")
    top = a_screen(msgspec.structs.replace(found, pools=[pool]))
    assert "8 (weekdays 08:00-18:00 UTC), then 2 in 2h" in lines(top, (120, 24))[3]


def test_the_selection_follows_its_row_when_others_come_and_go() -> None:
    top = a_screen(with_instances(30), "3jjj")
    assert selected(top) == "i-0003"
    found = with_instances(30)
    top.update(msgspec.structs.replace(found, instances=found.instances[2:]))
    assert selected(top) == "i-0003"
    top.update(msgspec.structs.replace(found, instances=found.instances[20:]))
    assert selected(top).startswith("i-00")


def test_keys_move_the_selection_by_rows_and_pages() -> None:
    top = a_screen(with_instances(100), "3")
    for keys, expected in (
        (["j", "down", "k"], "i-0001"),
        (["page-down"], "i-0020"),
        (["page-up"], "i-0001"),
        (["G"], "i-0099"),
        (["down"], "i-0099"),
        (["home"], "i-0000"),
        (["up"], "i-0000"),
        (["end"], "i-0099"),
    ):
        pressed(top, *keys)
        assert selected(top) == expected
    assert lines(top)[22].split()[0] == "i-0099"


def test_a_filter_shows_only_rows_that_contain_its_text() -> None:
    top = a_screen(with_instances(100), "3/")
    assert pressed(top, *"I-007")[-1] == "/I-007_"
    assert "1 of 10  /I-007" in lines(top)[1]
    assert pressed(top, *"q9", "erase", "erase")[-1] == "/I-007_"  # also q is a letter here
    assert pressed(top, "enter", "j")[-1].startswith("q quit")
    assert selected(top) == "i-0071"
    assert pressed(top, "/", *"nothing")[3] == "No row contains 'I-007nothing'."
    assert "of 100" in pressed(top, "escape")[1]


def test_a_filter_is_not_longer_than_a_row() -> None:
    assert len(a_screen(keys="/" + "x" * 500).frame(NOW, SIZE)[-1][0]) == len("/_") + 64


def test_s_sorts_by_the_next_column_and_r_reverses() -> None:
    found = with_instances(5)
    runs = ["c", "a", "e", "b", "d"]
    many = [msgspec.structs.replace(one, run_id=run) for one, run in zip(found.instances, runs, strict=True)]
    top = a_screen(msgspec.structs.replace(found, instances=many), "3ss")
    assert "by RUN" in lines(top)[1]
    assert [line.split()[2] for line in lines(top)[3:8]] == ["a", "b", "c", "d", "e"]
    assert "by RUN, reversed" in pressed(top, "r")[1]
    assert [line.split()[2] for line in lines(top)[3:8]] == ["e", "d", "c", "b", "a"]
    assert "by STATE" in pressed(top, "S")[1]


def test_enter_asks_why_of_the_row_and_escape_goes_back() -> None:
    top = a_screen(keys="3j")
    assert pressed(top, "enter")[:3] == ["why i-2", "", "reading ..."]
    assert top.asked == "i-2"
    top.explain("i-1", lambda width: "too late")
    assert lines(top)[2] == "reading ..."
    top.explain("i-2", lambda width: "\n".join(f"step {number}" for number in range(50)))
    assert lines(top)[2] == "step 0"
    assert lines(top)[-1] == "30 more lines below; escape goes back"
    assert pressed(top, "j", "page-down")[2] == "step 20"
    assert pressed(top, *["page-down"] * 9)[2] == "step 30"
    assert pressed(top, "escape")[1].startswith(" pools  runs [instances]")
    assert not top.quits


def test_help_names_every_key_and_any_key_closes_it() -> None:
    top = a_screen(keys="?")
    text = "\n".join(lines(top, (60, 20)))
    for word in ("quit", "tab", "PgUp", "/", "sort", "reverse", "why", "suspend"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 60
    assert pressed(top, "q")[1].startswith("[pools]")
    pressed(top, "q")
    assert top.quits


def test_trouble_is_shown_and_ends_with_the_next_answer() -> None:
    top = a_screen()
    top.trouble = "not read: the server is away"
    assert lines(top)[-1] == "not read: the server is away"
    top.update(a_pool())
    assert lines(top)[-1].startswith("q quit")


def test_rows_that_a_slow_answer_leaves_old_are_called_so() -> None:
    top = a_screen()
    top.silent_for = 4.9
    assert lines(top)[-1].startswith("q quit")
    top.silent_for = 7.2
    assert lines(top)[-1] == "no answer for 7 s: the rows are from before"
    top.trouble = "not read: the server is away"
    assert lines(top)[-1] == "not read: the server is away"


# ---- size


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (200, 60), (30, 8), (5, 4), (1, 1), (300, 2)])
@pytest.mark.parametrize("keys", ["1", "2", "3", "4", "?", "3\r"])
def test_every_view_fits_any_size(size: tuple[int, int], keys: str) -> None:
    top = a_screen(with_instances(100, run_id="x" * 128))
    top.frame(NOW, size)
    pressed(top, *(key.replace("\r", "enter") if key == "\r" else key for key in keys))
    frame = top.frame(NOW, size)
    assert len(frame) <= max(size[1], 5)


def test_a_narrow_terminal_shows_whole_ids_and_states() -> None:
    top = a_screen(with_instances(3, run_id="acme-" * 20), "3")
    assert lines(top, (60, 20))[3].startswith("i-0000    running  acme-acme-")


# ---- hostile text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\033[31mb\r\n\tc", "a?[31mb   c"),
        ("\u202eevil\u200b", "?evil?"),
        ("cafe\u0301", "café"),
        ("a\u0301\u0302\u0303b", "áb"),
        ("日本", "日本"),
    ],
)
def test_text_from_outside_cannot_control_the_terminal(text: str, shown: str) -> None:
    assert safe(text) == shown
    assert all(char.isprintable() for char in safe(text))


def test_a_terminal_without_unicode_gets_ascii() -> None:
    assert safe("café 日", unicode=False) == "caf? ?"


@pytest.mark.parametrize("width", range(9))
def test_wide_characters_count_twice(width: int) -> None:
    assert width_of(fitted("日本語", width)) == width
    assert width_of(fitted("abcdef", width)) == width
    assert fitted("日本語", 6) == "日本語"
    assert fitted("日本語", 5) == "日本~"


def test_a_hostile_run_id_is_drawn_as_text() -> None:
    top = a_screen(with_instances(2, run_id="\033]0;owned\007\u202e"), "3")
    assert all(text.isprintable() for text, _ in top.frame(NOW, SIZE))


# ---- keys


@pytest.mark.parametrize("cut", [1, 2, 3, 99])
def test_keys_are_read_however_their_bytes_are_cut(cut: int) -> None:
    sent = b"j\033[A\033[6~\033OB\tq/\xc3\xa9\r\x7f\033[1;5C\033[Z"
    reader = KeyReader()
    keys = [key for at in range(0, len(sent), cut) for key in reader.read(sent[at : at + cut])]
    assert keys == ["j", "up", "page-down", "down", "tab", "q", "/", "é", "enter", "erase", "back-tab"]


def test_an_escape_byte_alone_is_the_escape_key() -> None:
    reader = KeyReader()
    assert reader.read(b"\033") == []
    assert reader.is_waiting
    assert reader.rest() == ["escape"]
    assert not reader.is_waiting
    assert reader.rest() == []


def test_a_sequence_without_end_does_not_hold_keys_back() -> None:
    reader = KeyReader()
    assert "j" in reader.read(b"\033[" + b"1;" * 50 + b"\001j") + reader.rest()


# ---- what is written


class Written(FullScreen):
    """A screen of a size, whose bytes go to a picture."""

    def __init__(self, columns: int, rows: int) -> None:
        self._has_styles = True
        self._shown, self._size, self.written = [], (0, 0), 0
        self.of_size = columns, rows
        self.picture = ScreenPicture(columns, rows)
        self.picture.feed(b"\033[?1049h")

    @property
    def size(self) -> tuple[int, int]:
        return self.of_size

    def _write(self, text: str) -> None:
        self.written += len(text.encode())
        self.picture.feed(text.encode())


def test_a_drawn_frame_is_on_the_screen_also_after_many_changes() -> None:
    found = with_instances(60, run_id="run-日本")
    top, screen = a_screen(found, "3"), Written(*SIZE)
    for step, key in enumerate(["j", "tab", "G", "3", "page-down", "/", "4", "escape", "?", "x", "s", "r", "1", "3"]):
        top.press(key)
        many = [msgspec.structs.replace(one, run_id=f"r{step}{one.id[-1] * step}") for one in found.instances]
        top.update(msgspec.structs.replace(found, instances=many if step % 2 else found.instances))
        frame = top.frame(NOW + timedelta(seconds=step), SIZE)
        screen.draw(frame)
        if all(text.isascii() for text, _ in frame):
            assert screen.picture.lines == [text.rstrip() for text, _ in frame]


def test_five_thousand_idle_rows_write_next_to_nothing() -> None:
    found = with_instances(5000, state=RUNNING, heartbeat_at="2030-01-01T00:00:00Z", threshold="2030-01-01T01:00:00Z")
    top, screen = a_screen(found, "3"), Written(*SIZE)
    screen.draw(top.frame(NOW, SIZE))
    assert screen.written < 80 * 24 + 1000
    drawn = screen.written
    for second in range(1, 16):
        top.update(found)
        screen.draw(top.frame(NOW + timedelta(seconds=second), SIZE))
    assert screen.written - drawn < 300  # the minutes until a threshold have changed once
    drawn = screen.written
    pressed(top, "j")
    screen.draw(top.frame(NOW + timedelta(seconds=15), SIZE))
    assert screen.written - drawn < 2 * 80 + 80  # the two rows, and the number of the row


def test_a_state_that_changes_writes_only_itself() -> None:
    found = with_instances(100)
    top, screen = a_screen(found, "3"), Written(*SIZE)
    screen.draw(top.frame(NOW, SIZE))
    before = screen.written
    changed = [*found.instances]
    changed[5] = msgspec.structs.replace(changed[5], state=CLAIMED)
    top.update(msgspec.structs.replace(found, instances=changed))
    screen.draw(top.frame(NOW, SIZE))
    assert 0 < screen.written - before < 40
