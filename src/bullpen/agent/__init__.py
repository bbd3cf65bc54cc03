"""What runs on an instance: standard library only, so it starts in a blink and needs no install."""
