-- Version 8. No query looks for instances by `due_at`: refresh walks the live ones, and debts have an index of their own.
-- Without the index a claim writes one page less. The column stays, empty in new rows: a process of the previous version
-- may still be running and writes it.

DROP INDEX instances_due;
