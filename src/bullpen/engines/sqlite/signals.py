"""What agents report, in SQLite: one row per instance for the last signal, one for the last heartbeat."""

from collections.abc import Sequence
from copy import copy

from bullpen.engines.sqlite.database import Database
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.rows import Row, from_micros, to_micros
from bullpen.engines.sqlite.waiting import Wakes
from bullpen.engines.sqlite.writer import Transaction
from bullpen.model.signal import Heartbeat, Kind, Pulse, Signal

REPORT = """
    INSERT INTO signals (instance_id, kind, run_id, round, seq, text) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (instance_id) DO UPDATE
    SET kind = excluded.kind, run_id = excluded.run_id, round = excluded.round, seq = excluded.seq, text = excluded.text
    WHERE excluded.seq > seq
"""
BEAT = """
    INSERT INTO heartbeats (instance_id, at, seq) VALUES (?, ?, ?)
    ON CONFLICT (instance_id) DO UPDATE SET at = excluded.at, seq = excluded.seq WHERE excluded.seq > seq
"""
SIGNAL = "SELECT kind, run_id, round, seq, text FROM signals WHERE instance_id = ?"
HEARTBEAT = "SELECT at, seq FROM heartbeats WHERE instance_id = ?"


class SqliteSignals:
    """`ports.Signals` on one home's database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wakes: Wakes | None = None

    async def report(self, signal: Signal) -> bool:
        kind, run_id, round_ = signal.kind.value, signal.run_id, signal.round
        return await self._store(REPORT, (signal.instance_id, kind, run_id, round_, signal.seq, signal.text))

    async def beat(self, heartbeat: Heartbeat) -> bool:
        return await self._store(BEAT, (heartbeat.instance_id, to_micros(heartbeat.at), heartbeat.seq))

    async def read(self, ids: Sequence[str]) -> dict[str, Pulse]:
        self._listen()  # from before the first look on, so that nothing falls between it and the first wait
        return await self._database.read(lambda snapshot: {id_: _pulse(snapshot, id_) for id_ in ids})

    async def wait(self, timeout: float) -> None:
        # On a copy: two who wait at once must both hear the change that ends the wait of the first.
        own = copy(self._listen())
        await own.wait(timeout)
        self._wakes = own

    def _listen(self) -> Wakes:
        if self._wakes is None:
            self._wakes = self._database.wakes()
        return self._wakes

    async def _store(self, statement: str, parameters: Row) -> bool:
        def write(transaction: Transaction) -> bool:
            stored = transaction.execute(statement, parameters).rowcount == 1
            if stored:
                transaction.wake_control()
            return stored

        return await self._database.write(write)


def _pulse(snapshot: Snapshot, instance_id: str) -> Pulse:
    signal = heartbeat = None
    if (row := snapshot.execute(SIGNAL, (instance_id,)).fetchone()) is not None:
        kind, run_id, round_, seq, text = row
        signal = Signal(instance_id, Kind(kind), run_id, round_, seq, text)
    if (row := snapshot.execute(HEARTBEAT, (instance_id,)).fetchone()) is not None:
        at, seq = row
        heartbeat = Heartbeat(instance_id, from_micros(at), seq)
    return Pulse(signal, heartbeat)
