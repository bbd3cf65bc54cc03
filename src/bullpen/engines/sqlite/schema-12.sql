-- Version 12. The history: reports of provisions, actions of the control plane, and who owned the seconds of machines.
-- A step that changes the owner of a record names its run in the story, too.

ALTER TABLE stories ADD COLUMN run_id TEXT NOT NULL DEFAULT '';
ALTER TABLE stories ADD COLUMN repository TEXT NOT NULL DEFAULT '';

-- Whether the last second of an instance that has ended is booked.
ALTER TABLE instances ADD COLUMN booked INTEGER NOT NULL DEFAULT 0;
CREATE INDEX instances_unbooked ON instances (purge_at) WHERE purge_at IS NOT NULL AND booked = 0;

CREATE TABLE reports (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    id       TEXT NOT NULL UNIQUE,
    ended_at INTEGER NOT NULL,
    report   TEXT NOT NULL
);
CREATE INDEX reports_ended ON reports (ended_at, id);

CREATE TABLE activity_notes (
    number  INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    by      TEXT NOT NULL,
    did     TEXT NOT NULL,
    subject TEXT NOT NULL,
    reason  TEXT NOT NULL,
    is_done INTEGER NOT NULL,
    trouble INTEGER NOT NULL
);
CREATE INDEX activity_notes_at ON activity_notes (at);

CREATE TABLE meters (
    instance_id TEXT PRIMARY KEY,
    revision    INTEGER NOT NULL,
    until       INTEGER NOT NULL,
    owner       TEXT NOT NULL,
    version     INTEGER NOT NULL,
    run_id      TEXT NOT NULL,
    repository  TEXT NOT NULL,
    over        INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX meters_open ON meters (instance_id) WHERE over = 0;
CREATE INDEX meters_over ON meters (until) WHERE over = 1;

CREATE TABLE usage (
    number         INTEGER PRIMARY KEY AUTOINCREMENT,
    hour           INTEGER NOT NULL,
    owner          TEXT NOT NULL,
    run_id         TEXT NOT NULL,
    repository     TEXT NOT NULL,
    resource_class TEXT NOT NULL,
    instance_type  TEXT NOT NULL,
    usage_class    TEXT NOT NULL,
    microseconds   INTEGER NOT NULL
);
CREATE UNIQUE INDEX usage_hours ON usage (hour, owner, run_id, repository, resource_class, instance_type, usage_class);
