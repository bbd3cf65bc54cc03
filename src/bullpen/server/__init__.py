"""The service over HTTP: heartbeats first, everything else beside them."""
