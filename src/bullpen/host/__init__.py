"""The machine that Bullpen runs on: its processes, scheduled jobs, user ids and directories."""
