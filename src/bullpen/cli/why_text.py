"""The answer of `bullpen why` as text: what waits, where the time went, and the last steps of each record."""

from collections.abc import Iterator, Sequence

from bullpen.cli.output import arrow
from bullpen.cli.text import DEEPER, columns, duration, plural, table, wrapped
from bullpen.schema.story import CiJobAnswer, StoryAnswer, StoryLineAnswer, WaitingJobAnswer
from bullpen.schema.why import LaneAnswer, TimelineAnswer, WaitAnswer, WhyAnswer

INDENT = "  "
CANDIDATES = 20  # lines; --json has 200
LANES = 20
EXPLAINED = 3  # waits with their candidates; the others have a line each
BARS = 30  # characters of a waterfall
SHORTEST_BAR = 8  # characters below which it is left out
STAGES = (
    ("picked", "picked up"),
    ("claimed", "claimed"),
    ("seen", "seen"),
    ("launched", "launched"),
    ("booted", "booted"),
    ("registered", "registered"),
    ("first job", "first job"),
)


def why_text(found: WhyAnswer, width: int) -> str:
    """Every section that has something to say. `width` is that of the terminal, 0 for any."""
    return "\n\n".join(_sections(found, width))


def _sections(found: WhyAnswer, width: int) -> Iterator[str]:
    if len(found.waits) != 1:  # else the wait says it
        yield "\n".join(wrapped(found.summary, width, DEEPER))
    for one in found.waits[:EXPLAINED]:
        yield _wait_text(one, width)
    if others := found.waits[EXPLAINED:]:
        yield _others_text(others, width)
    if found.timeline is not None:
        yield _timeline_text(found.timeline, width)
    yield from (story_text(story, width) for story in found.stories)


def _wait_text(one: WaitAnswer, width: int) -> str:
    since = f", since {one.since}" if one.since else ""
    lines = wrapped(f"{one.kind.value} {one.subject} waits: {one.cause.value}{since}", width, DEEPER)
    lines += _indented(one.because, width)
    left = f" About {duration(one.seconds_left)} left." if one.seconds_left is not None else ""
    if one.next or left:
        lines += _indented(f"Next: {one.next}{left}", width)
    if one.refusals:
        counts = ", ".join(f"{each.count} {each.rule.value}" for each in one.refusals)
        lines += _indented(f"Candidates: {counts}", width)
    rows = [(each.instance_id, each.state.value, each.rule.value, each.detail) for each in one.candidates[:CANDIDATES]]
    if rows:
        titles = ["CANDIDATE", "STATE", "RULE", "DETAIL"]
        if not any(row[3] for row in rows):
            titles, rows = titles[:3], [row[:3] for row in rows]  # type: ignore[misc]
        shown = table(titles, rows, max(width - len(INDENT), 20) if width else 0, ["STATE"], ("CANDIDATE",), wraps=True)
        lines += [INDENT + line for line in shown.splitlines()]
    if len(one.candidates) > CANDIDATES:
        lines.append(f"{INDENT}and {len(one.candidates) - CANDIDATES} more, see --json")
    return "\n".join(lines)


def _others_text(others: Sequence[WaitAnswer], width: int) -> str:
    """One line for each cause and reason."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for one in others:
        grouped.setdefault((one.kind.value, one.cause.value, one.because), []).append(one.subject)
    lines: list[str] = []
    for (kind, cause, because), subjects in grouped.items():
        who = f"{kind} {subjects[0]}" if len(subjects) == 1 else plural(len(subjects), f"more {kind}")
        verb = "waits" if len(subjects) == 1 else "wait"
        lines += wrapped(f"{who} {verb}: {cause}: {because}", width, DEEPER)
    return "\n".join(lines)


def _timeline_text(timeline: TimelineAnswer, width: int) -> str:
    """A waterfall of the stages, then one line for each instance, those that were kept first."""
    head = f"{timeline.provision_id}, asked at {timeline.asked_at}: {timeline.outcome.value}"
    if timeline.seconds is not None:
        head += f" after {duration(timeline.seconds)}"
    if timeline.reason:
        head += f": {timeline.reason}"
    lines = wrapped(head, width, DEEPER)
    lines += [INDENT + line for line in _waterfall(timeline.stages, width)]
    lanes = sorted(timeline.lanes, key=lambda lane: (not lane.kept, lane.instance_id))
    for lane in lanes[:LANES]:
        lines += _indented(_lane_text(lane), width)
    if len(lanes) > LANES:
        lines.append(f"{INDENT}and {len(lanes) - LANES} more, see --json")
    return "\n".join(lines)


def _waterfall(stages: dict[str, float], width: int) -> list[str]:
    """Each stage from where the one before ended until all instances had reached it."""
    named = [(words, stages[stage]) for stage, words in STAGES if stage in stages]
    named.sort(key=lambda item: item[1])
    longest = max((at for _, at in named), default=0.0)
    room = min(BARS, width - len(INDENT) - 22) if width else BARS
    full, empty = "█", "░"
    lines, before = [], 0.0
    for words, at in named:
        begin, end = (round(room * one / longest) if longest else 0 for one in (before, at))
        bar = (empty * begin + full * max(end - begin, 1))[:room] if room >= SHORTEST_BAR else ""
        lines.append(f"{words:<10} {_took(at):>7}  {bar}".rstrip())
        before = at
    return lines


def _lane_text(lane: LaneAnswer) -> str:
    times = {
        "picked": lane.picked,
        "claimed": lane.claimed,
        "seen": lane.seen,
        "launched": lane.launched,
        "booted": lane.booted,
        "registered": lane.registered,
        "first job": lane.first_job,
    }
    reached = ", ".join(f"{words} {_took(at)}" for stage, words in STAGES if (at := times[stage]) is not None)
    if lane.kept:
        return f"{lane.instance_id} {lane.origin.value}: {reached or 'no stage is known'}"
    fate = f", {lane.fate.value}" if lane.fate else ""
    return f"{lane.instance_id} {lane.origin.value}, not kept{fate}: {lane.reason or reached or 'no reason is known'}"


def _took(seconds: float) -> str:
    """The stages of a reused runner are parts of a second."""
    return f"{seconds:.2f}s" if seconds < 9.95 else duration(seconds)


def _indented(text: str, width: int) -> list[str]:
    return wrapped(INDENT + text, width, INDENT * 2)


# ---- the last steps


def story_text(story: StoryAnswer, width: int) -> str:
    head = f"{story.id} is {story.state}" if story.state else f"{story.id} is purged; its last steps remain"
    if story.owes:
        head += f" and owes {story.owes.kind} from {story.owes.due_at}"
    if story.job:
        head += f", and executes {_job_text(story.job)}"
    if story.leaving_at:
        head += f", and its machine will be taken away at {story.leaving_at}"
    waiting = [line for one in story.waiting for line in wrapped(_waiting_text(one), width, DEEPER)]
    return "\n".join([*wrapped(head, width, DEEPER), steps_text(story.story, width), *waiting]).rstrip()


def steps_text(steps: Sequence[StoryLineAnswer], width: int) -> str:
    """The last steps of a record, in lines that fit into `width`, 0 for any."""
    lines = [
        (step.at, step.step.strip("_").replace("_", " "), f"{arrow()} {step.state}", step.by, step.why)
        for step in steps
    ]
    text = columns(lines, indent=INDENT)
    if width and max(map(len, text.splitlines()), default=0) > width:  # then the process stands beside its reason
        text = columns([(*line[:3], ": ".join(filter(None, line[3:]))) for line in lines], indent=INDENT, width=width)
    return text


def _waiting_text(job: WaitingJobAnswer) -> str:
    of = f"job {job.name} of {job.repository}, run {job.run}," if job.run else "a job that no message named"
    return f"{of} has waited since {job.since}: {job.why}"


def _job_text(job: CiJobAnswer) -> str:
    name = f"job {job.name}" if job.name else "a job"
    return f"{name} of {job.repository}, run {job.run}, attempt {job.attempt}"
