-- Version 11. The jobs on offer that a scale set has no room for yet: the next holder acquires them.

ALTER TABLE set_sessions ADD COLUMN offered TEXT NOT NULL DEFAULT '[]';
