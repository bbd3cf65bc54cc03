"""The control plane on virtual time: the loop, faults, invariants and arrivals."""
