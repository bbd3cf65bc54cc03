"""The control plane's store as an agent reaches it: SQLite on the same machine, `bullpen serve`, or DynamoDB."""
