-- Version 5. What a worker said of itself goes with its clean-up, and a forgotten key never has an old epoch again.

-- One row: the highest epoch of all workers that were removed. A first beat begins in the epoch after it.
CREATE TABLE forgotten_workers (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL
);
INSERT INTO forgotten_workers SELECT 1, coalesce(max(epoch), 0) FROM workers;

CREATE TRIGGER a_removed_worker_leaves_its_epoch AFTER DELETE ON workers
BEGIN
    UPDATE forgotten_workers SET epoch = OLD.epoch WHERE id = 1 AND epoch < OLD.epoch;
    DELETE FROM cards WHERE worker = OLD.id;
END;
CREATE TRIGGER a_cleaned_up_worker_has_no_card AFTER UPDATE OF state ON workers WHEN NEW.state = 'cleaned-up'
BEGIN
    DELETE FROM cards WHERE worker = NEW.id;
END;
DELETE FROM cards WHERE worker NOT IN (SELECT id FROM workers WHERE state <> 'cleaned-up');
