-- Version 3. Whose run an instance serves, and what a worker runs for a CI that has jobs of its own.

ALTER TABLE instances ADD COLUMN repository TEXT NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN activity TEXT NOT NULL DEFAULT '';
