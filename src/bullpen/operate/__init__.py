"""Operate: what operators order: pause and resume a class or the pool, drain instances, rotate a class.

An order is one write, or one for each instance. What takes longer stands in the store, and every process that keeps the
pool goes on with it: refresh and `serve` (refresh/orders.py), provision and release (pool/offering.py).
"""

from bullpen.operate.drain import drain
from bullpen.operate.outcome import OperateOutcome, OperatorDeed
from bullpen.operate.pauses import pause, resume
from bullpen.operate.rotate import rotate

__all__ = ["OperateOutcome", "OperatorDeed", "drain", "pause", "resume", "rotate"]
