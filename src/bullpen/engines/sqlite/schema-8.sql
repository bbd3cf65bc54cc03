-- Version 8. No query looks for instances in the order of `due_at`: refresh walks the live ones, and debts have an index
-- of their own. Without the index a claim writes one page less. The column stays: the local engine reads it by id.

DROP INDEX instances_due;
