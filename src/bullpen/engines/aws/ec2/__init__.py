"""Machines of EC2: fleets, launch templates, and what each refusal means."""
