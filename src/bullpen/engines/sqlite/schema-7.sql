-- Version 7. The place of a provision in the queue of a cap; null for nearly all of them.

ALTER TABLE provisions ADD COLUMN waits_for TEXT;
ALTER TABLE provisions ADD COLUMN waits_since INTEGER;
ALTER TABLE provisions ADD COLUMN waits_until INTEGER;
CREATE INDEX provisions_waiting ON provisions (waits_since, id) WHERE waits_since IS NOT NULL;
