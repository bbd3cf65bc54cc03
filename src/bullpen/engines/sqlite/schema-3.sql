-- Version 3. Whose run an instance serves, what a worker runs for a CI that has jobs of its own, and as whom the jobs
-- of a machine run.

ALTER TABLE instances ADD COLUMN repository TEXT NOT NULL DEFAULT '';
ALTER TABLE workers ADD COLUMN activity TEXT NOT NULL DEFAULT '';
ALTER TABLE machines ADD COLUMN runner_user TEXT NOT NULL DEFAULT '';
ALTER TABLE machines ADD COLUMN runner_uid INTEGER; -- whom that name meant at the launch
