"""What is true and how it may change: records, events and steps, all pure."""
