-- Version 10. The label by which a pool knows the scale sets that it created. Sets from before are known by their id.

ALTER TABLE scale_sets ADD COLUMN mark TEXT NOT NULL DEFAULT '';
