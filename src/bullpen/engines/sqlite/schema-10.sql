-- Version 10. The label by which a pool knows the scale sets that it created; sets from before are known by their id.
-- And how often an idle runner registered again because the CI had dropped it, since the holder took the set.

ALTER TABLE scale_sets ADD COLUMN mark TEXT NOT NULL DEFAULT '';
ALTER TABLE set_sessions ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;
