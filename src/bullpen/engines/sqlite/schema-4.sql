-- Version 4. Which loops of services keep failing, where a probe writes, and how the file gets free pages.

CREATE TABLE failing_loops (
    process TEXT NOT NULL, -- which service: its host and process
    loop    TEXT NOT NULL,
    since   INTEGER NOT NULL,
    error   TEXT NOT NULL,
    until   INTEGER NOT NULL, -- shown no longer than that: the service notes it again while it lives
    PRIMARY KEY (process, loop)
) WITHOUT ROWID;
CREATE INDEX failing_loops_until ON failing_loops (until);

CREATE TABLE probes (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    at INTEGER NOT NULL
);

-- Filled and emptied at once: what stays are free pages, for a day when the disk is full. See reserve.py.
CREATE TABLE slack (
    filler BLOB NOT NULL
);
