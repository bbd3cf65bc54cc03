-- Version 1. Times are whole microseconds since 1970, UTC. `due_at` and `purge_at` drive the partial indexes, so that
-- every query costs what it finds, whatever the history.

CREATE TABLE instances (
    id               TEXT PRIMARY KEY,
    state            TEXT NOT NULL CHECK (state IN ('created', 'idle', 'claimed', 'running', 'terminated')),
    version          INTEGER NOT NULL,
    threshold        INTEGER NOT NULL,
    run_id           TEXT NOT NULL,
    round            TEXT NOT NULL,
    provision_id     TEXT NOT NULL,
    attested         INTEGER NOT NULL,
    trust_domain     TEXT NOT NULL,
    image_generation INTEGER NOT NULL,
    resource_class   TEXT NOT NULL,
    instance_type    TEXT NOT NULL,
    usage_class      TEXT NOT NULL,
    cpu              INTEGER NOT NULL,
    mem              INTEGER NOT NULL,
    offered_at       INTEGER,
    owes_kind        TEXT,
    owes_due         INTEGER,
    purge_at         INTEGER,
    due_at           INTEGER,
    CHECK (attested = 0 OR (state = 'idle' AND run_id = '')),
    CHECK (state <> 'idle' OR run_id = ''),
    CHECK (state <> 'claimed' OR run_id <> ''),
    CHECK (state <> 'idle' OR attested = 1 OR owes_kind = 'await-and-offer')
) WITHOUT ROWID;

-- Every live instance is in exactly one of the first three, and they hold all that counting the pool looks at. An index of
-- its own for that would be rewritten by each claim.
CREATE INDEX instances_of_run ON instances (run_id, id, resource_class, state) WHERE run_id <> '' AND state <> 'terminated';
CREATE INDEX instances_claimable ON instances (resource_class, id, attested) WHERE attested = 1;
CREATE INDEX instances_pending ON instances (resource_class, id, state, run_id, attested)
    WHERE run_id = '' AND attested = 0 AND state <> 'terminated';
-- `purge_at` is set once the end is confirmed. `due_at IS NOT NULL` would say the same, but claims change it.
CREATE INDEX instances_owing ON instances (owes_due) WHERE owes_due IS NOT NULL;
CREATE INDEX instances_live ON instances (id) WHERE purge_at IS NULL;
CREATE INDEX instances_purge ON instances (purge_at) WHERE purge_at IS NOT NULL;

-- No path leads an uncleaned instance to a claim, whatever a program believes.
CREATE TRIGGER only_offer_and_expire_touch_an_unattested_instance
BEFORE UPDATE ON instances
WHEN OLD.state = 'idle' AND OLD.attested = 0 AND NEW.state NOT IN ('idle', 'terminated')
BEGIN
    SELECT RAISE(ABORT, 'an idle instance that is not attested can only be offered or expired');
END;

CREATE TABLE provisions (
    id             TEXT PRIMARY KEY,
    state          TEXT NOT NULL CHECK (state IN ('open', 'committed', 'aborted')),
    version        INTEGER NOT NULL,
    run_id         TEXT NOT NULL,
    want           INTEGER NOT NULL,
    resource_class TEXT NOT NULL,
    needs          TEXT NOT NULL, -- JSON
    deadline       INTEGER NOT NULL,
    max_runtime    REAL NOT NULL,
    fleets         TEXT NOT NULL, -- JSON
    members        TEXT NOT NULL, -- JSON
    reason         TEXT NOT NULL,
    owes_kind      TEXT,
    owes_due       INTEGER,
    purge_at       INTEGER,
    due_at         INTEGER
) WITHOUT ROWID;

CREATE INDEX provisions_of_run ON provisions (run_id, id)
    WHERE run_id <> '' AND (state = 'open' OR owes_kind IS NOT NULL OR members <> '[]');
CREATE INDEX provisions_told ON provisions (run_id, deadline) WHERE run_id <> '';
CREATE INDEX provisions_open ON provisions (resource_class, id) WHERE state = 'open';
CREATE INDEX provisions_due ON provisions (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX provisions_purge ON provisions (purge_at) WHERE purge_at IS NOT NULL;

-- The last sixteen steps of each record: slot = version mod 16.
CREATE TABLE stories (
    record_id TEXT NOT NULL,
    slot      INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    step      TEXT NOT NULL,
    state     TEXT NOT NULL,
    at        INTEGER NOT NULL,
    by        TEXT NOT NULL,
    why       TEXT NOT NULL,
    PRIMARY KEY (record_id, slot)
) WITHOUT ROWID;

CREATE TABLE signals (
    instance_id TEXT PRIMARY KEY,
    kind        TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    round       TEXT NOT NULL,
    seq         INTEGER NOT NULL,
    text        TEXT NOT NULL
) WITHOUT ROWID;

-- A beat rewrites one row here and nothing else: no index holds what every beat changes (token, deadline, beat_at). Keyed by
-- a number, because that keeps the timers and the other indexes narrow.
CREATE TABLE workers (
    number        INTEGER PRIMARY KEY,
    id            TEXT NOT NULL UNIQUE,
    state         TEXT NOT NULL CHECK (state IN ('active', 'inactive', 'cleaned-up')),
    version       INTEGER NOT NULL,
    instance_id   TEXT NOT NULL,
    domain        TEXT NOT NULL,
    epoch         INTEGER NOT NULL,
    token         INTEGER NOT NULL,
    request_id    TEXT NOT NULL,
    lease         REAL NOT NULL,
    deadline      INTEGER,
    due_at        INTEGER,
    cleanup_at    INTEGER,
    purge_at      INTEGER,
    fate          TEXT NOT NULL CHECK (fate IN ('keep', 'retire')),
    lost_epoch    INTEGER NOT NULL,
    settled_epoch INTEGER NOT NULL,
    beat_at       INTEGER,
    CHECK (state <> 'active' OR deadline IS NOT NULL)
);
CREATE INDEX workers_of_instance ON workers (instance_id) WHERE instance_id <> '' AND state <> 'cleaned-up';
CREATE INDEX workers_listed ON workers (id) WHERE state <> 'cleaned-up';
CREATE INDEX workers_cleanup ON workers (cleanup_at) WHERE cleanup_at IS NOT NULL;
CREATE INDEX workers_owing ON workers (id) WHERE lost_epoch > settled_epoch;
CREATE INDEX workers_purge ON workers (purge_at) WHERE purge_at IS NOT NULL;

-- When to look at the lease of an active worker: every one has an entry that is not later than its deadline. A renewed
-- lease leaves it alone; what is found at its time decides. Apart from the workers, so that moving the timers of a
-- million of them rewrites a few narrow pages and not a million rows.
CREATE TABLE lease_timers (
    due_at INTEGER NOT NULL,
    worker INTEGER NOT NULL, -- its number
    PRIMARY KEY (due_at, worker)
) WITHOUT ROWID;

CREATE TRIGGER a_new_lease_has_a_timer AFTER INSERT ON workers WHEN NEW.state = 'active'
BEGIN
    INSERT OR IGNORE INTO lease_timers (due_at, worker) VALUES (NEW.deadline, NEW.number);
END;
CREATE TRIGGER a_shorter_lease_has_an_earlier_timer AFTER UPDATE OF deadline ON workers
WHEN NEW.state = 'active' AND (OLD.state <> 'active' OR NEW.deadline < OLD.deadline)
BEGIN
    INSERT OR IGNORE INTO lease_timers (due_at, worker) VALUES (NEW.deadline, NEW.number);
END;

-- How many workers there are: counting a million takes a tenth of a second, and sweepers ask every second.
CREATE TABLE worker_counts (
    domain TEXT NOT NULL,
    state  TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (domain, state)
) WITHOUT ROWID;

CREATE TRIGGER a_new_worker_is_counted AFTER INSERT ON workers
BEGIN
    INSERT INTO worker_counts VALUES (NEW.domain, NEW.state, 1) ON CONFLICT DO UPDATE SET number = number + 1;
END;
CREATE TRIGGER a_changed_worker_is_counted_anew AFTER UPDATE OF state, domain ON workers
WHEN NEW.state <> OLD.state OR NEW.domain <> OLD.domain
BEGIN
    UPDATE worker_counts SET number = number - 1 WHERE domain = OLD.domain AND state = OLD.state;
    INSERT INTO worker_counts VALUES (NEW.domain, NEW.state, 1) ON CONFLICT DO UPDATE SET number = number + 1;
END;
CREATE TRIGGER a_removed_worker_is_counted_no_more AFTER DELETE ON workers
BEGIN
    UPDATE worker_counts SET number = number - 1 WHERE domain = OLD.domain AND state = OLD.state;
END;

-- What workers say of themselves: apart from the lease, because it hardly ever changes.
CREATE TABLE cards (
    worker TEXT PRIMARY KEY,
    card   TEXT NOT NULL -- JSON
) WITHOUT ROWID;

-- What sweepers have agreed on: one row per failure domain, and one for the whole store.
CREATE TABLE controls (
    id           TEXT PRIMARY KEY,
    state        TEXT NOT NULL CHECK (state IN ('open', 'held')),
    version      INTEGER NOT NULL,
    ingest_at    INTEGER,
    recovered_at INTEGER,
    budget       REAL NOT NULL,
    budget_at    INTEGER,
    held_since   INTEGER,
    why          TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE queues (
    resource_class TEXT PRIMARY KEY
) WITHOUT ROWID;

CREATE TABLE tickets (
    id             INTEGER PRIMARY KEY,
    resource_class TEXT NOT NULL,
    visible_at     INTEGER NOT NULL,
    expires_at     INTEGER, -- no longer handed out from then on; removed by the next write
    body           TEXT NOT NULL
);
CREATE INDEX tickets_visible ON tickets (resource_class, visible_at, expires_at);
CREATE INDEX tickets_expired ON tickets (expires_at) WHERE expires_at IS NOT NULL;

-- Since when refresh has seen something odd, each time: a list that merely lags condemns nothing.
CREATE TABLE observations (
    topic TEXT NOT NULL,
    key   TEXT NOT NULL,
    since INTEGER NOT NULL,
    PRIMARY KEY (topic, key)
) WITHOUT ROWID;

-- The local compute engine's own book: a machine is written here before its process is started.
CREATE TABLE machines (
    id             TEXT PRIMARY KEY,
    client_token   TEXT NOT NULL,
    provision_id   TEXT NOT NULL,
    resource_class TEXT NOT NULL,
    instance_type  TEXT NOT NULL,
    usage_class    TEXT NOT NULL,
    cpu            INTEGER NOT NULL,
    mem            INTEGER NOT NULL,
    launched_at    INTEGER NOT NULL,
    ended_at       INTEGER,
    pid            INTEGER,
    started        TEXT -- start time and boot id of the process: a pid alone proves nothing
) WITHOUT ROWID;
CREATE INDEX machines_of_fleet ON machines (client_token);
CREATE INDEX machines_alive ON machines (id) WHERE ended_at IS NULL;
CREATE INDEX machines_ended ON machines (ended_at) WHERE ended_at IS NOT NULL;

-- Fleets that the local compute engine has answered: a token's answer stands, even one without machines.
CREATE TABLE fleets (
    client_token TEXT PRIMARY KEY,
    answered_at  INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX fleets_answered ON fleets (answered_at);

-- The embedded CI: which runner serves which label, and its jobs.
CREATE TABLE registrations (
    name  TEXT PRIMARY KEY,
    label TEXT NOT NULL,
    round TEXT NOT NULL,
    busy  INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE TABLE jobs (
    id           TEXT PRIMARY KEY,
    state        TEXT NOT NULL CHECK (state IN ('queued', 'running', 'finished')),
    version      INTEGER NOT NULL,
    run_id       TEXT NOT NULL,
    command      TEXT NOT NULL, -- JSON list
    name         TEXT NOT NULL,
    job_index    INTEGER NOT NULL,
    timeout      REAL NOT NULL,
    capability   TEXT NOT NULL,
    side_effects INTEGER NOT NULL,
    queued_at    INTEGER,
    not_before   INTEGER,
    fence        INTEGER NOT NULL, -- raised by each assignment: a result of an older one is refused
    worker       TEXT NOT NULL,
    epoch        INTEGER NOT NULL,
    instance_id  TEXT NOT NULL,
    bound        INTEGER NOT NULL,
    verify_by    INTEGER,
    losses       INTEGER NOT NULL,
    avoid        TEXT NOT NULL,
    cancelling   INTEGER NOT NULL,
    result       TEXT NOT NULL,
    exit_code    INTEGER,
    reason       TEXT NOT NULL,
    finished_at  INTEGER,
    purge_at     INTEGER,
    CHECK (state <> 'running' OR worker <> ''),
    CHECK (state <> 'finished' OR result <> '')
) WITHOUT ROWID;
-- A job that lost its worker comes before those that have never run.
CREATE INDEX jobs_queued ON jobs (run_id, losses = 0, queued_at, job_index, id) WHERE state = 'queued';
CREATE INDEX jobs_held ON jobs (worker, epoch, id) WHERE state = 'running';
CREATE INDEX jobs_unverified ON jobs (verify_by) WHERE verify_by IS NOT NULL;
CREATE INDEX jobs_unfinished ON jobs (run_id, id) WHERE state <> 'finished';
CREATE INDEX jobs_of_run ON jobs (run_id, id);
CREATE INDEX jobs_purge ON jobs (purge_at) WHERE purge_at IS NOT NULL;
