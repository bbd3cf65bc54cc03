"""Gives the next run a machine as it was at boot, or says why it cannot.

    boot ── take_baseline ──▶ run ──▶ clean: end strays ─▶ remove what is new ─▶ look again ──▶ VerifiedClean | Dirty
                                                                  on a shared machine: ▲ └─▶ renew the places, and look

The baseline is what the pre-runner script left. What is new is removed; what the baseline had and is changed or missing
cannot be brought back, so it makes the instance Dirty. Cleaning does not believe itself: the verdict comes from a
second look at everything, made when the cleaning is over.

This is hygiene, not a security border: it undoes what a job left behind, not what a job with root did to the kernel, to
the clock or to us.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import chain
from typing import Protocol

from bullpen.agent.cleaning.baseline import Baseline, bring_back_attributes, differences, where
from bullpen.agent.cleaning.keep_list import KeepList
from bullpen.agent.cleaning.renewal import Renewal
from bullpen.agent.cleaning.slices import Turn
from bullpen.host.processes import TreeSurvived, end_tree, identify
from bullpen.host.sweep import EntryFate, Judge, Path, sweep
from bullpen.lazy_dataclass import dataclass

# A process stuck in the kernel gets so many seconds in all; the heartbeat goes out between two turns.
STRAY_TURNS = 5
STRAY_TURN_LASTS = 1.0
MOST_REASONS = 20


@dataclass(frozen=True, slots=True)
class VerifiedClean:
    """The second look found the baseline and nothing else: the instance may be attested."""

    baseline: Baseline | None = field(default=None, compare=False)  # as it is from now on


@dataclass(frozen=True, slots=True)
class Dirty:
    """Not as it was at boot, and why; never to be offered."""

    reasons: tuple[str, ...]


class Aspect(Protocol):
    """Something beside the places that a run fills and that has a baseline of its own."""

    def sweep(self, keep: KeepList, troubles: dict[str, str]) -> Iterator[Turn]:
        """Remove what is new; note in `troubles` what resists."""

    def differences(self, keep: KeepList) -> Iterator[str | Turn]:
        """Look again: every difference from the baseline, one sentence each."""


def clean(
    baseline: Baseline, keep: KeepList, beside: Sequence[Aspect] = (), renews: Collection[str] = ()
) -> Generator[Turn | None, None, VerifiedClean | Dirty]:
    """Bring the baseline back; yield often, so that a heartbeat fits in between, and return the verdict. The places
    `renews` are other directories afterwards, unless they are Dirty: the verdict says what is their baseline."""
    yield from _end_strays(baseline)
    troubles: dict[str, str] = {}
    # Before the places: a container may still be writing to them.
    for aspect in beside:
        yield from aspect.sweep(keep, troubles)
    for name in baseline.places:
        yield from _sweep_place(baseline, name, keep, troubles)
    found: list[str] = []
    if renews:
        yield from _note(differences(baseline, keep), found)
        if not found:
            renewal = Renewal(baseline, renews, keep)
            yield from renewal.run()
            baseline = renewal.baseline
    if not found:
        looks = chain(differences(baseline, keep), *(aspect.differences(keep) for aspect in beside))
        yield from _note(looks, found)
    resisted = [f"{path} could not be cleaned: {why}" for path, why in troubles.items()]
    return Dirty((*resisted, *found)) if found else VerifiedClean(baseline)


def _note(looks: Iterable[str | Turn | None], found: list[str]) -> Iterator[Turn | None]:
    """Add the differences to `found`, as far as they are of use to people."""
    for difference in looks:
        if not isinstance(difference, str):
            yield difference
        elif len(found) < MOST_REASONS:
            found.append(difference)


def _end_strays(baseline: Baseline) -> Iterator[None]:
    """End what the run left running; what outlasts all turns is found again by the second look."""
    me, spare, user = identify(os.getpid()), baseline.processes, baseline.user
    for _ in range(STRAY_TURNS):
        try:
            end_tree(me, baseline.mark, patience=STRAY_TURN_LASTS, spare=spare, user=user)
            return
        except TreeSurvived:
            yield None


def _sweep_place(baseline: Baseline, name: str, keep: KeepList, troubles: dict[str, str]) -> Iterator[None]:
    try:
        top = os.open(baseline.places[name], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as failure:
        troubles[name] = str(failure.strerror).lower()
        return
    try:
        # Another directory under the same path may belong to another user: nothing in it is removed.
        if where(os.fstat(top)) == baseline.root(name):
            yield from sweep(top, name, _judge(baseline, keep), troubles)
            yield from bring_back_attributes(baseline, name, keep, troubles)
        else:
            troubles[name] = "it is not the directory that was there at boot"
    finally:
        os.close(top)


def _judge(baseline: Baseline, keep: KeepList) -> Judge:
    roots = {baseline.root(name) for name in baseline.places}

    def judge(path: Path, status: os.stat_result) -> EntryFate:
        # A place inside another place is swept under its own name.
        if keep.covers(path) or where(status) in roots:
            return EntryFate.STAYS
        if path in baseline.entries:
            return EntryFate.STAYS_INSIDE_JUDGED
        if keep.leads_on(path) and stat.S_ISDIR(status.st_mode):
            return EntryFate.GOES_WHEN_EMPTY
        return EntryFate.GOES

    return judge
