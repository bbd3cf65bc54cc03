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
CREATE INDEX instances_due ON instances (due_at) WHERE due_at IS NOT NULL;
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

CREATE INDEX provisions_of_run ON provisions (run_id, id) WHERE run_id <> '';
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

CREATE TABLE heartbeats (
    instance_id TEXT PRIMARY KEY,
    at          INTEGER NOT NULL,
    seq         INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE queues (
    resource_class TEXT PRIMARY KEY
) WITHOUT ROWID;

CREATE TABLE tickets (
    id             INTEGER PRIMARY KEY,
    resource_class TEXT NOT NULL,
    visible_at     INTEGER NOT NULL,
    body           TEXT NOT NULL
);
CREATE INDEX tickets_visible ON tickets (resource_class, visible_at);

-- Since when refresh has seen something odd, at every look: a list that merely lags condemns nobody.
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
    id          TEXT PRIMARY KEY,
    run_id      TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('queued', 'running', 'finished')),
    fence       INTEGER NOT NULL, -- raised by each assignment: a result of an older one is refused
    command     TEXT NOT NULL, -- JSON list
    instance_id TEXT NOT NULL DEFAULT '',
    exit_code   INTEGER,
    queued_at   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX jobs_queued ON jobs (run_id, queued_at) WHERE state = 'queued';
