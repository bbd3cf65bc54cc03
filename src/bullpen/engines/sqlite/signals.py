"""What agents report, in SQLite: one row per instance for the last signal; the newest worker has the heartbeat."""

from collections.abc import Sequence
from copy import copy

from bullpen.engines.sqlite.beats import forgotten_epoch
from bullpen.engines.sqlite.database import Database, Wakes
from bullpen.engines.sqlite.reader import Snapshot
from bullpen.engines.sqlite.rows import WORKERS, Row, from_micros_or_null
from bullpen.engines.sqlite.writer import Transaction
from bullpen.engines.sqlite.writes import PreparedChange, land_together, select_by_id
from bullpen.model.signal import SEQ_STEP, Heartbeat, Kind, Pulse, Signal, beat_directly, direct_key
from bullpen.model.times import from_micros

REPORT = f"""
    INSERT INTO signals (instance_id, kind, run_id, round, seq, text)
    SELECT :instance_id, :kind, :run_id, :round, :seq, :text
    WHERE :seq <= {SEQ_STEP} OR EXISTS (SELECT 1 FROM signals WHERE instance_id = :instance_id)
    ON CONFLICT (instance_id) DO UPDATE
    SET kind = excluded.kind, run_id = excluded.run_id, round = excluded.round, seq = excluded.seq, text = excluded.text
    WHERE excluded.seq > seq AND excluded.seq <= seq + {SEQ_STEP}
"""
SIGNAL = "SELECT kind, run_id, round, seq, text FROM signals WHERE instance_id = ?"
HEARTBEAT = (
    "SELECT beat_at, token, activity, leaving FROM workers"
    " WHERE instance_id = ? AND instance_id <> '' AND state <> 'cleaned-up'"
    " ORDER BY beat_at DESC, id DESC LIMIT 1"
)


class SqliteSignals:
    """`ports.Signals` on one home's database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wakes: Wakes | None = None

    async def report(self, signal: Signal) -> bool:
        parameters = {
            "instance_id": signal.instance_id,
            "kind": signal.kind.value,
            "run_id": signal.run_id,
            "round": signal.round,
            "seq": signal.seq,
            "text": signal.text,
        }

        def write(transaction: Transaction) -> bool:
            stored = transaction.execute(REPORT, parameters).rowcount == 1
            if stored:
                transaction.wake_control()
            return stored

        return await self._database.write(write)

    async def beat(self, heartbeat: Heartbeat) -> bool:
        key = (direct_key(heartbeat.instance_id),)

        def write(transaction: Transaction) -> bool:
            row: Row | None = transaction.execute(select_by_id(WORKERS), key).fetchone()
            stored = None if row is None else WORKERS.decode(row)
            change = beat_directly(heartbeat, stored, forgotten_epoch(transaction) if stored is None else 0)
            if change is None:
                return False
            land_together(transaction, [PreparedChange.of(change)])
            transaction.wake_control()
            return True

        return await self._database.write(write)

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


def _pulse(snapshot: Snapshot, instance_id: str) -> Pulse:
    signal = heartbeat = None
    if (row := snapshot.execute(SIGNAL, (instance_id,)).fetchone()) is not None:
        kind, run_id, round_, seq, text = row
        signal = Signal(instance_id, Kind(kind), run_id, round_, seq, text)
    if (row := snapshot.execute(HEARTBEAT, (instance_id,)).fetchone()) is not None:
        at, seq, activity, leaving = row
        heartbeat = Heartbeat(instance_id, from_micros(at), seq, activity, from_micros_or_null(leaving))
    return Pulse(signal, heartbeat)
