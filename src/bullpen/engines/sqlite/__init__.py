"""The embedded engine: records, signals and pool queues in one SQLite file that many processes share."""
