-- Version 13. What an operator has paused, and the rotations of classes. None is removed: there are as many as classes.

CREATE TABLE pauses (
    id             TEXT PRIMARY KEY, -- 'pause:' and the class, or '*' for the whole pool
    state          TEXT NOT NULL CHECK (state IN ('paused', 'resumed')),
    version        INTEGER NOT NULL,
    resource_class TEXT NOT NULL,
    note           TEXT NOT NULL,
    operator       TEXT NOT NULL,
    since          INTEGER,
    drains         INTEGER NOT NULL,
    CHECK (state <> 'paused' OR since IS NOT NULL)
) WITHOUT ROWID;

CREATE TABLE rotations (
    id       TEXT PRIMARY KEY, -- 'rotation:' and the class
    state    TEXT NOT NULL CHECK (state IN ('rotating', 'rotated')),
    version  INTEGER NOT NULL,
    members  TEXT NOT NULL, -- JSON: the ids of the instances that are to go
    operator TEXT NOT NULL,
    since    INTEGER
) WITHOUT ROWID;
