"""What `bullpen top` shows: a pure state that keys and news change, and the rows that it draws.

    list ──/──▶ typing a filter ──enter──▶ list (filtered)
    list ──?──▶ help ──any key──▶ list
    list ──enter──▶ detail, with the text of `why` ──escape──▶ list

The selection belongs to a row, not to a place: it follows the row when others come and go.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from bullpen.cli.cells import SPACE, chosen, fitted, safe, width_of
from bullpen.cli.full_screen import ALARM, BOLD, PLAIN, SELECTED, Row
from bullpen.cli.text import plural, wrapped
from bullpen.cli.top_rows import VIEWS, TopData, TopView
from bullpen.schema.queue import QueueAnswer
from bullpen.schema.status import PoolStatus

HEAD, FOOT = 3, 1  # rows above and below the list
LONGEST_FILTER = 64
SILENT = 5.0  # seconds of one read after which the rows are called old: a large pool takes one or two
SENTENCE = 30  # cells of the last column that are enough to understand it
HINTS = "q quit  tab view  / filter  s sort  enter why  ? help"
HELP = """\
q, Ctrl-C       quit
tab             next view; 1 2 3 4 choose one
up, down, k, j  select a row
PgUp, PgDn      a page up or down
Home, End       the first row, the last one; also g, G
/               only rows that contain a text
escape          all rows again
s, S            sort by the next column, the one before
r               reverse the order
enter           why: explain the selected row
Ctrl-Z, Ctrl-L  suspend; draw again
?               this help"""
FIRST_SORTED = {"waits": "SINCE"}  # else the first column


class ViewState:
    """Where a view stands."""

    def __init__(self, view: TopView) -> None:
        self.view = view
        titles = [column.title for column in view.columns]
        self.sorted_by = titles.index(FIRST_SORTED.get(view.name, titles[0]))
        self.is_reversed = False
        self.selected, self.place, self.top = "", 0, 0
        self.widths = dict.fromkeys(titles, 0)


class TopScreen:
    """`asked` is the record that the user wants explained, until it is taken."""

    def __init__(self, *, unicode: bool = True, is_marked: bool = False) -> None:
        """`is_marked`: the selected row begins with a mark, because there are no styles."""
        self.quits = False
        self.asked = ""
        self.trouble = ""
        self.silent_for = 0.0  # seconds since the read began that has not ended yet
        self._unicode, self._mark = unicode, ">" if is_marked else ""
        self._found: TopData | None = None
        self._states = [ViewState(view) for view in VIEWS]
        self._at = 0
        self._filter, self._is_typing, self._has_help = "", False, False
        self._detail: Callable[[int], str] | None = None
        self._about, self._scrolled = "", 0
        self._rows: list[Any] | None = None
        self._page = 1

    def update(self, found: PoolStatus, queue: QueueAnswer | None = None) -> None:
        self._found, self._rows, self.trouble = TopData(found, queue), None, ""

    @property
    def shows_waits(self) -> bool:
        """Whether the causes of waits are wanted: to find them, more is read than for the other views."""
        return VIEWS[self._at].name == "waits"

    @property
    def lacks_waits(self) -> bool:
        return self.shows_waits and self._found is not None and self._found.queue is None

    def update_waits(self, queue: QueueAnswer) -> None:
        if self._found is not None:
            self.update(self._found.status, queue)

    def explain(self, subject: str, text: Callable[[int], str]) -> None:
        """Show a text about a record, which fits a width; nothing if the user has gone on meanwhile."""
        if self._about == subject:
            self._detail = text

    # ---- keys

    def press(self, key: str) -> None:
        if self._has_help:
            self._has_help = False
        elif self._about:
            self._press_in_detail(key)
        elif self._is_typing:
            self._type(key)
        else:
            self._press_in_list(key)

    def _press_in_list(self, key: str) -> None:
        state, rows = self._states[self._at], self._listed()
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "page-up": -self._page, "page-down": self._page}
        ends = {"home": 0, "g": 0, "end": len(rows) - 1, "G": len(rows) - 1}
        match key:
            case "q":
                self.quits = True
            case "tab" | "right":
                self._show_view((self._at + 1) % len(VIEWS))
            case "back-tab" | "left":
                self._show_view((self._at - 1) % len(VIEWS))
            case "1" | "2" | "3" | "4":
                self._show_view(int(key) - 1)
            case "/":
                self._is_typing = True
            case "escape":
                self._filter_by("")
            case "s" | "S":
                state.sorted_by = (state.sorted_by + (1 if key == "s" else -1)) % len(state.view.columns)
                self._rows = None
            case "r":
                state.is_reversed = not state.is_reversed
                self._rows = None
            case "?" | "h":
                self._has_help = True
            case "enter" if rows:
                self.asked = self._about = state.view.subject(rows[state.place])
                self._detail, self._scrolled = None, 0
            case _ if key in steps or key in ends:
                self._select(ends.get(key, state.place + steps.get(key, 0)))

    def _press_in_detail(self, key: str) -> None:
        match key:
            case "q" | "escape" | "enter" | "left":
                self._about, self.asked = "", ""
            case "up" | "k":
                self._scrolled -= 1
            case "down" | "j":
                self._scrolled += 1
            case "page-up" | "page-down":
                self._scrolled += self._page if key == "page-down" else -self._page
            case "home" | "g":
                self._scrolled = 0

    def _type(self, key: str) -> None:
        match key:
            case "enter":
                self._is_typing = False
            case "escape":
                self._is_typing = False
                self._filter_by("")
            case "erase":
                self._filter_by(self._filter[:-1])
            case "clear":
                self._filter_by("")
            case _ if len(key) == 1 and len(self._filter) < LONGEST_FILTER:
                self._filter_by(self._filter + key)

    def _show_view(self, at: int) -> None:
        self._at, self._rows = at, None

    def _filter_by(self, text: str) -> None:
        self._filter, self._rows = text, None

    def _select(self, place: int) -> None:
        state, rows = self._states[self._at], self._listed()
        if rows:
            state.place = max(0, min(place, len(rows) - 1))
            state.selected = state.view.id_of(rows[state.place])

    # ---- rows

    def _listed(self) -> list[Any]:
        """The rows of the view, filtered and sorted, with the selection on the same row as before."""
        state = self._states[self._at]
        view = state.view
        if self._rows is None:
            sought = self._filter.casefold()
            found = view.rows(self._found) if self._found else []
            rows = [one for one in found if sought in view.searched(one).casefold()] if sought else list(found)
            rows.sort(key=view.columns[state.sorted_by].key, reverse=state.is_reversed)
            self._rows = rows
            lost = 0 if sought else min(state.place, max(0, len(rows) - 1))
            places = (place for place, one in enumerate(rows) if view.id_of(one) == state.selected)
            state.place = next(places, lost)
            state.selected = view.id_of(rows[state.place]) if rows else state.selected
        return self._rows

    def frame(self, now: datetime, size: tuple[int, int]) -> list[Row]:
        """What to draw on a terminal of this size, in columns and rows."""
        width, height = size
        room = max(1, height - HEAD - FOOT)
        self._page = max(1, room - 1)
        if self._has_help:
            return self._text_frame("Keys", HELP.splitlines(), room, width)
        if self._about:
            text = self._detail(width) if self._detail else "reading ..."
            return self._text_frame(f"why {self._about}", text.splitlines(), room, width)
        body = self._list_rows(now, room, width)
        head = [(self._summary(), BOLD), (self._tabs(width), PLAIN)]
        return [*head, *body, *[("", PLAIN)] * (room + 1 - len(body)), self._foot(width)][: max(1, height)]

    def _text_frame(self, title: str, lines: Sequence[str], room: int, width: int) -> list[Row]:
        self._scrolled = max(0, min(self._scrolled, len(lines) - room))
        shown = [(safe(line, unicode=self._unicode), PLAIN) for line in lines[self._scrolled : self._scrolled + room]]
        below = len(lines) - self._scrolled - room
        foot = f"{plural(below, 'more line')} below; " if below > 0 else ""
        blank = [("", PLAIN)] * (room - len(shown))
        return [(safe(title), BOLD), ("", PLAIN), *shown, *blank, ("", PLAIN), (f"{foot}escape goes back", PLAIN)]

    def _list_rows(self, now: datetime, room: int, width: int) -> list[Row]:
        """The titles, and the rows around the selected one."""
        state, rows = self._states[self._at], self._listed()
        if not rows:
            text = f"No row contains {self._filter!r}." if self._filter else state.view.empty
            return [("", PLAIN), *((safe(line, unicode=self._unicode), PLAIN) for line in wrapped(text, width))]
        state.top = max(0, min(state.top, state.place, len(rows) - room), state.place - room + 1)
        shown = rows[state.top : state.top + room]
        columns = {column.title: column for column in state.view.columns}
        cells = [
            {title: safe(column.text(one, now), unicode=self._unicode) for title, column in columns.items()}
            for one in shown
        ]
        for title in columns:  # never narrower than before: columns must not move while nothing happens
            widest = max([len(title), *(width_of(row[title]) for row in cells)])
            state.widths[title] = max(state.widths[title], widest)
        mark = len(self._mark)
        last = next(reversed(columns))  # it may have sentences, which are cut before other columns are left out
        needed = state.widths | {last: min(state.widths[last], SENTENCE)}
        kept = chosen(list(columns), needed, state.view.spare, width - mark)
        widths = dict(state.widths)
        # The rest of the row belongs to the last column; if there is too little, the widest one is cut.
        excess = sum(widths[title] for title in kept) + SPACE * (len(kept) - 1) + mark - width
        widths[kept[-1]] = max(widths[kept[-1]] - excess, len(kept[-1])) if excess > 0 else widths[kept[-1]]
        if (excess := sum(widths[title] for title in kept) + SPACE * (len(kept) - 1) + mark - width) > 0:
            widest_title = max(kept, key=lambda title: widths[title])
            widths[widest_title] = max(len(widest_title), widths[widest_title] - excess)
        gap = " " * SPACE
        titles = " " * mark + gap.join(fitted(title, widths[title]) for title in kept)
        listed: list[Row] = [(titles, BOLD)]
        for place, row in enumerate(cells, state.top):
            is_selected = place == state.place
            text = gap.join(fitted(row[title], widths[title]) for title in kept)
            listed.append(((self._mark if is_selected else " " * mark) + text, SELECTED if is_selected else PLAIN))
        return listed

    def _summary(self) -> str:
        if (found := self._found) is None:
            return "reading ..."
        status = found.status
        counted = [plural(len(status.runs), "run"), plural(len(status.instances), "instance")]
        paused = ", ".join(one.resource_class or "whole pool" for one in status.pauses)
        if found.queue is not None:
            counted.append(plural(found.waits, "wait"))
        elif status.waiting:
            counted.append(f"{len(status.waiting)} at a cap")
        head = f"{', '.join(counted)}{f'  PAUSED: {paused}' if paused else ''}"
        return safe(f"{head}  {status.location}", unicode=self._unicode)

    def _tabs(self, width: int) -> str:
        state = self._states[self._at]
        names = [f"[{one.name}]" if one is state.view else f" {one.name} " for one in VIEWS]
        order = f"by {state.view.columns[state.sorted_by].title}{', reversed' if state.is_reversed else ''}"
        sought = f"  /{self._filter}" if self._filter else ""
        rows = len(self._listed())
        place = f"  {min(state.place + 1, rows)} of {rows}"
        return safe(f"{''.join(names)}  {order}{place}{sought}", unicode=self._unicode)

    def _foot(self, width: int) -> Row:
        if self._is_typing:
            return safe(f"/{self._filter}_", unicode=self._unicode), PLAIN
        if self.trouble:
            return safe(self.trouble, unicode=self._unicode), ALARM
        if self.silent_for >= SILENT:
            return f"no answer for {int(self.silent_for)} s: the rows are from before", ALARM
        if self._found is not None and self._found.status.hold:
            return safe(f"no worker is declared lost: {self._found.status.hold}", unicode=self._unicode), ALARM
        return HINTS, PLAIN
