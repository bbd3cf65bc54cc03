-- Version 8. The files that a job works on, and the patterns of those that are kept when it has ended.

ALTER TABLE jobs ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN artifacts TEXT NOT NULL DEFAULT '[]'; -- JSON list
CREATE INDEX jobs_sources ON jobs (source) WHERE state <> 'finished' AND source <> '';
