"""What every PoolQueue promises. Nothing is said about order."""

import asyncio
from datetime import timedelta

from builders import a_ticket, messages
from bullpen.ports import Message, PoolQueue, Ports


async def test_what_was_sent_is_taken_once(queue: PoolQueue) -> None:
    await queue.ensure("small")
    bodies = [a_ticket(instance_id=f"i-{n}").to_json() for n in range(3)]
    await queue.send("small", messages(bodies))
    assert sorted(await queue.take("small", 10)) == bodies
    assert await queue.take("small", 10) == []


async def test_a_body_comes_back_character_by_character(queue: PoolQueue) -> None:
    await queue.ensure("small")
    body = '{"not": "a ticket"}\n\t\'quoted\' ünïcödé 🏁'
    await queue.send("small", messages([body]))
    assert await queue.take("small", 1) == [body]


async def test_the_same_body_twice_is_two_messages(queue: PoolQueue) -> None:
    await queue.ensure("small")
    await queue.send("small", messages(["a", "a"]))
    assert await queue.take("small", 10) == ["a", "a"]


async def test_take_returns_at_most_its_limit_and_leaves_the_rest(queue: PoolQueue) -> None:
    await queue.ensure("small")
    await queue.send("small", messages(["a", "b", "c"]))
    first = await queue.take("small", 2)
    assert len(first) == 2
    assert sorted(first + await queue.take("small", 2)) == ["a", "b", "c"]


async def test_more_messages_than_one_request_carries_arrive_all(queue: PoolQueue) -> None:
    await queue.ensure("small")
    bodies = {f"body {n}" for n in range(95)}
    await queue.send("small", messages(sorted(bodies)))
    taken: set[str] = set()
    while some := await queue.take("small", 10):
        assert taken.isdisjoint(some)
        taken.update(some)
    assert taken == bodies


async def test_nothing_sent_is_no_mistake(queue: PoolQueue) -> None:
    await queue.ensure("small")
    await queue.send("small", messages([]))
    assert await queue.count("small") == 0


async def test_tickets_for_a_class_that_lost_its_queue_are_no_error(queue: PoolQueue) -> None:
    await queue.ensure("small")
    await queue.send("small", messages(["before"]))
    await queue.retire("small")
    await queue.send("small", messages(["lost, or in a queue that was made again"]))
    await queue.send("never made", messages(["lost, or in a queue made for it"]))
    await queue.ensure("small")
    await queue.send("small", messages(["after"]))
    taken = await queue.take("small", 10)
    assert "after" in taken
    assert "before" not in taken


async def test_a_delayed_message_is_hidden(queue: PoolQueue) -> None:
    await queue.ensure("small")
    await queue.send("small", messages(["hidden"]), delay=60)
    await queue.send("small", messages(["seen"]))
    assert await queue.take("small", 10) == ["seen"]


async def test_a_delayed_message_appears_after_its_delay(queue: PoolQueue) -> None:
    await queue.ensure("small")
    await queue.send("small", messages(["hidden"]), delay=0.02)
    async with asyncio.timeout(120):
        while not (taken := await queue.take("small", 10)):  # noqa: ASYNC110  a queue wakes no waiter
            await asyncio.sleep(0.01)
    assert taken == ["hidden"]


async def test_hidden_messages_count(queue: PoolQueue) -> None:
    await queue.ensure("small")
    await queue.send("small", messages(["a", "b"]))
    await queue.send("small", messages(["c"]), delay=60)
    assert await queue.count("small") == 3


async def test_racing_takers_share_without_overlap(queue: PoolQueue) -> None:
    await queue.ensure("small")
    bodies = sorted(f"body {n}" for n in range(40))
    await queue.send("small", messages(bodies))
    shares = await asyncio.gather(*(queue.take("small", 3) for _ in range(20)))
    assert sorted(body for share in shares for body in share) == bodies


async def test_classes_have_queues_of_their_own(queue: PoolQueue) -> None:
    await queue.ensure("small")
    await queue.ensure("large")
    await queue.send("small", messages(["a"]))
    assert await queue.take("large", 10) == []
    assert await queue.count("large") == 0


async def test_names_are_the_classes_that_have_a_queue(queue: PoolQueue) -> None:
    assert await queue.names() == []
    await queue.ensure("small")
    await queue.ensure("large")
    assert sorted(await queue.names()) == ["large", "small"]


async def test_to_ensure_a_queue_again_leaves_its_messages(queue: PoolQueue) -> None:
    await queue.ensure("small")
    await queue.send("small", messages(["a"]))
    await queue.ensure("small")
    assert await queue.take("small", 10) == ["a"]


async def test_a_retired_queue_is_gone_with_what_was_in_it(queue: PoolQueue) -> None:
    await queue.ensure("small")
    await queue.send("small", messages(["a"]))
    await queue.send("small", messages(["b"]), delay=60)
    await queue.retire("small")
    assert await queue.names() == []
    await queue.ensure("small")
    assert await queue.take("small", 10) == []
    assert await queue.count("small") == 0


async def test_to_retire_a_queue_that_is_gone_is_success(queue: PoolQueue) -> None:
    await queue.retire("small")
    assert await queue.names() == []


async def test_an_expired_message_is_neither_taken_nor_counted(ports: Ports, queue: PoolQueue) -> None:
    await queue.ensure("small")
    now = ports.clock.now()
    await queue.send("small", messages(["over"], expires=now - timedelta(seconds=1)))
    await queue.send("small", messages(["lasts"], expires=now + timedelta(hours=1)))
    await queue.send("small", messages(["stays"]))
    assert await queue.count("small") == 2
    assert sorted(await queue.take("small", 10)) == ["lasts", "stays"]


async def test_each_message_of_a_batch_has_its_own_expiry(ports: Ports, queue: PoolQueue) -> None:
    await queue.ensure("small")
    now = ports.clock.now()
    over, lasts = Message("over", now - timedelta(seconds=1)), Message("lasts", now + timedelta(hours=1))
    await queue.send("small", [over, lasts, Message("stays")])
    assert await queue.count("small") == 2
    assert sorted(await queue.take("small", 10)) == ["lasts", "stays"]


async def test_hidden_messages_expire_too(ports: Ports, queue: PoolQueue) -> None:
    await queue.ensure("small")
    await queue.send("small", messages(["hidden"], expires=ports.clock.now() - timedelta(seconds=1)), delay=60)
    assert await queue.count("small") == 0
