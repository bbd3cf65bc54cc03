"""What every use case does with instances: hand them over, watch them, put them on offer, and pay what records owe."""
