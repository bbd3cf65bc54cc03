"""What every Records promises of a conditional write: it lands once, and only on the record that was seen."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from builders import (
    NOW,
    Walk,
    abort,
    adopt,
    claim,
    claimed,
    cleaning,
    commit,
    decide,
    expire,
    keep,
    later,
    needs,
    offer,
    on_offer,
    open_provision,
    register,
    registered,
    release,
    roll_back,
    running,
    used_and_on_offer,
)
from bullpen.errors import Conflict
from bullpen.model.instance import CLAIMED, IDLE, Instance
from bullpen.model.ticket import Ticket, parse_ticket
from bullpen.model.transition import Change
from bullpen.ports import Records
from conformance.landing import land, stored
from set_builders import a_ready_set, claimed_for_set, engage, engaged, extend, recall, rules

# ---- exclusive


async def test_of_many_claimers_exactly_one_wins(records: Records) -> None:
    seen = await land(records, on_offer())
    claims = [claim(seen, f"run-{n}") for n in range(64)]
    outcomes = await asyncio.gather(*map(records.apply, claims), return_exceptions=True)
    winners = [change for change, outcome in zip(claims, outcomes, strict=True) if isinstance(outcome, list)]
    assert len(winners) == 1
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 63
    assert await stored(records, seen.id) == winners[0].after


async def test_a_conflict_carries_the_stored_record(records: Records) -> None:
    seen = await land(records, on_offer())
    (winner,) = await records.apply(claim(seen, "run-1"))
    with pytest.raises(Conflict) as lost:
        await records.apply(claim(seen, "run-2"))
    assert lost.value.found == winner


async def test_an_old_version_does_not_land_even_if_all_else_is_equal(records: Records) -> None:
    seen = await land(records, on_offer())
    (kept,) = await records.apply(keep(seen, until=seen.threshold))
    assert replace(kept, version=seen.version) == seen
    with pytest.raises(Conflict):
        await records.apply(claim(seen))
    assert await stored(records, seen.id) == kept


async def test_the_state_is_checked_beside_the_version(records: Records) -> None:
    seen = await land(records, running())
    with pytest.raises(Conflict) as refused:
        await records.apply(commit(replace(seen, state=CLAIMED)))  # every guard holds
    assert refused.value.found == seen


async def test_a_change_of_a_record_that_is_absent_conflicts_and_finds_none(records: Records) -> None:
    with pytest.raises(Conflict) as refused:
        await records.apply(claim(on_offer()[-1].after))
    assert refused.value.found is None
    assert await records.instances(["i-1"]) == {}


async def test_what_is_registered_already_is_not_registered_again(records: Records) -> None:
    first = await land(records, registered())
    with pytest.raises(Conflict) as refused:
        await records.apply(register())
    assert refused.value.found == first
    assert await stored(records, "i-1") == first


async def test_a_provision_is_opened_once(records: Records) -> None:
    (first,) = await records.apply(open_provision())
    with pytest.raises(Conflict) as refused:
        await records.apply(open_provision())
    assert refused.value.found == first


async def test_a_provision_is_decided_once(records: Records) -> None:
    (opened,) = await records.apply(open_provision())
    outcomes = await asyncio.gather(
        records.apply(decide(opened, "i-1")), records.apply(abort(opened)), return_exceptions=True
    )
    assert sum(isinstance(outcome, Conflict) for outcome in outcomes) == 1


# ---- guards hold on what is stored, whatever the writer believes


@dataclass(frozen=True, slots=True)
class Forgery:
    """A record that claims to be the stored one, in its version and state, and lies about `lie`."""

    walk: Walk
    lie: dict[str, Any]
    step: Callable[[Instance], Change[Instance]]


OTHERS = needs(trust_domain="other")
SET_OF_RUNS = a_ready_set(rules=rules(trust_domain="default"))
FORGERIES = {
    "claim: attested": Forgery(cleaning(), {"attested": True}, claim),
    "claim: threshold": Forgery(on_offer(threshold=NOW), {"threshold": later(60)}, claim),
    "claim: trust domain": Forgery(used_and_on_offer(), {"trust_domain": ""}, lambda i: claim(i, needs=OTHERS)),
    "claim: image generation": Forgery(on_offer(image_generation=2), {"image_generation": 1}, claim),
    "adopt: run id": Forgery(registered(run_id="run-1"), {"run_id": ""}, adopt),
    "adopt: round": Forgery(registered(), {"round": "another"}, adopt),
    "commit: round": Forgery(claimed(), {"round": "another"}, commit),
    "commit: provision": Forgery(claimed(), {"provision_id": "p-2"}, commit),
    "roll back: round": Forgery(claimed(), {"round": "another"}, roll_back),
    "release: run id": Forgery(running(), {"run_id": "run-2"}, release),
    "offer: attested": Forgery(used_and_on_offer(), {"attested": False}, offer),
    "offer: round": Forgery(cleaning(), {"round": "another"}, offer),
    "keep: attested": Forgery(cleaning(), {"attested": True}, keep),
    "expire: round": Forgery(running(), {"round": "another"}, expire),
    "engage: round": Forgery(claimed_for_set(), {"round": "another"}, lambda i: engage(i, a_ready_set())),
    "engage: run id": Forgery(claimed(), {"run_id": a_ready_set().run_id}, lambda i: engage(i, SET_OF_RUNS)),
    "engage: trust domain": Forgery(claimed_for_set(), {"trust_domain": "default"}, lambda i: engage(i, SET_OF_RUNS)),
    "renew: round": Forgery(engaged(), {"round": "another"}, extend),
    "recall: round": Forgery(engaged(), {"round": "another"}, recall),
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
async def test_a_guard_is_held_against_the_stored_record(records: Records, forgery: Forgery) -> None:
    truth = await land(records, forgery.walk)
    told = (await records.stories([truth.id]))[truth.id]
    with pytest.raises(Conflict) as refused:
        await records.apply(forgery.step(replace(truth, **forgery.lie)))
    assert refused.value.found == truth
    assert await stored(records, truth.id) == truth
    assert (await records.stories([truth.id]))[truth.id] == told


async def test_a_claim_from_a_ticket_lands_without_a_read_and_keeps_what_the_ticket_does_not_know(
    records: Records,
) -> None:
    offered = await land(records, used_and_on_offer(threshold=later(60.5)))
    ticket = parse_ticket(offered.ticket().to_json())
    assert isinstance(ticket, Ticket)
    change = claim(Instance.from_ticket(ticket), "run-2")
    (landed,) = await records.apply(change)
    assert landed == replace(change.after, offered_at=offered.offered_at)
    assert await stored(records, offered.id) == landed


async def test_a_claim_writes_its_threshold_even_where_the_ticket_names_the_same(records: Records) -> None:
    offered = await land(records, on_offer(threshold=later(60.5)))
    believed = replace(offered, threshold=later(60))
    (landed,) = await records.apply(claim(believed, until=later(60)))
    assert landed.threshold == later(60)


async def test_a_ticket_with_a_wrong_trust_domain_does_not_change_the_stored_one(records: Records) -> None:
    never_used = await land(records, on_offer())
    believed = replace(never_used, trust_domain="default")
    await asyncio.gather(records.apply(claim(believed)), return_exceptions=True)
    found = await stored(records, never_used.id)
    assert found.state is IDLE or found.trust_domain == "default"


@pytest.mark.parametrize("inherited", ["team-0", "team-149", "team-392"])
async def test_a_claim_may_inherit_from_hundreds_of_trust_domains(records: Records, inherited: str) -> None:
    asked = needs(trust_domain="own", inherits=tuple(f"team-{n}" for n in range(393)))
    offered = await land(records, on_offer(trust_domain=inherited))
    (landed,) = await records.apply(claim(offered, needs=asked))
    assert landed.trust_domain == "own"


async def test_a_claim_that_inherits_from_hundreds_of_trust_domains_is_refused_one_of_another(records: Records) -> None:
    asked = needs(trust_domain="own", inherits=tuple(f"team-{n}" for n in range(393)))
    offered = await land(records, on_offer(trust_domain="team-393"))
    with pytest.raises(Conflict):
        await records.apply(claim(offered, needs=asked))


# ---- a lost answer


DRAWING = {
    "register": ([], lambda _: register()),
    "claim": (on_offer(), claim),
    "roll back": (claimed(), roll_back),
    "release": (running(), release),
    "recall": (engaged(), recall),
}


@pytest.mark.parametrize(("walk", "step"), DRAWING.values(), ids=DRAWING.keys())
async def test_a_writer_whose_answer_was_lost_recognises_its_round(
    records: Records, walk: Walk, step: Callable[[Any], Change[Instance]]
) -> None:
    change = step(await land(records, walk) if walk else None)
    (landed,) = await records.apply(change)
    assert await records.apply(change) == [landed]
    assert await records.apply_each([change]) == [landed]
    story = (await records.stories(["i-1"]))["i-1"]
    assert [line.version for line in story] == list(range(1, landed.version + 1))


async def test_a_round_is_no_proof_once_the_record_has_moved_on(records: Records) -> None:
    change = claim(await land(records, on_offer()))
    (landed,) = await records.apply(change)
    (moved,) = await records.apply(commit(landed))
    assert moved.round == change.after.round
    with pytest.raises(Conflict) as refused:
        await records.apply(change)
    assert refused.value.found == moved


async def test_a_step_that_draws_no_round_conflicts_with_itself_and_shows_what_it_wrote(records: Records) -> None:
    change = keep(await land(records, on_offer()))
    (landed,) = await records.apply(change)
    with pytest.raises(Conflict) as refused:
        await records.apply(change)
    assert refused.value.found == landed == change.after
