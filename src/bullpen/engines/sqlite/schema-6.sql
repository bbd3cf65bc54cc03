-- Version 6. Operators' tokens as hashes, and the secret of which agents' tokens are made, instead of files of a home.

CREATE TABLE tokens (
    name TEXT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    scope TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    revoked INTEGER
) WITHOUT ROWID;
CREATE INDEX tokens_ended ON tokens (min(coalesce(expires, revoked), coalesce(revoked, expires)))
    WHERE coalesce(expires, revoked) IS NOT NULL;

-- 'required': there was a token once, so that operators need one; 'agents': their secret.
CREATE TABLE keys (
    name TEXT PRIMARY KEY,
    content BLOB NOT NULL
) WITHOUT ROWID;
