-- Version 9. Scale sets of a CI, which process listens to each, and which repository a bare name means. None is removed: there
-- are as many as names were used.

CREATE TABLE scale_sets (
    id        TEXT PRIMARY KEY, -- 'set:' and its name
    state     TEXT NOT NULL CHECK (state IN ('wanted', 'ready', 'retiring', 'retired')),
    version   INTEGER NOT NULL,
    rules     TEXT NOT NULL, -- JSON
    ci_id     INTEGER NOT NULL,
    group_id  INTEGER NOT NULL,
    owes_kind TEXT,
    owes_due  INTEGER,
    CHECK (state <> 'ready' OR ci_id <> 0),
    CHECK (state = 'retiring' OR owes_kind IS NULL)
) WITHOUT ROWID;

CREATE TABLE set_sessions (
    id            TEXT PRIMARY KEY, -- 'session:' and the set's name
    state         TEXT NOT NULL CHECK (state IN ('free', 'held')),
    version       INTEGER NOT NULL,
    holder        TEXT NOT NULL,
    round         TEXT NOT NULL,
    epoch         INTEGER NOT NULL, -- raised by each take: a holder of an older one writes nothing more
    ci_session    TEXT NOT NULL,
    taken_at      INTEGER,
    beat_at       INTEGER,
    opened_at     INTEGER,
    heard_at      INTEGER,
    statistics    TEXT, -- JSON
    message       INTEGER NOT NULL,
    missing       INTEGER NOT NULL,
    phantom       INTEGER NOT NULL,
    waiting       TEXT NOT NULL, -- JSON list
    started       TEXT NOT NULL, -- JSON list
    failing_since INTEGER,
    why           TEXT NOT NULL,
    CHECK (state <> 'held' OR holder <> '')
) WITHOUT ROWID;

CREATE TABLE repositories (
    id      TEXT PRIMARY KEY, -- 'repository:' and the case-folded name
    state   TEXT NOT NULL CHECK (state = 'known'),
    version INTEGER NOT NULL,
    name    TEXT NOT NULL,
    ci_id   INTEGER NOT NULL CHECK (ci_id <> 0),
    others  TEXT NOT NULL -- JSON list
) WITHOUT ROWID;
