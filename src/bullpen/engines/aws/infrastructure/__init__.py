"""What a pool on AWS stands on: made or verified, permitted, and looked over by doctor."""
