"""Tickets on SQS: one queue per resource class."""
