-- Version 2. When a worker's machine is to be taken away; null for nearly all of them.

ALTER TABLE workers ADD COLUMN leaving INTEGER;
CREATE INDEX workers_leaving ON workers (id) WHERE leaving IS NOT NULL AND state = 'active';
