"""Records, signals, leases and jobs in one DynamoDB table."""
