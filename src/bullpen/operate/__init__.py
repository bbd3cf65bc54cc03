"""Operate: what operators order: pause and resume a class or the pool, drain instances, rotate a class.

An order is one write, or one for each instance. What takes longer stands in the store, and every process that keeps the
pool goes on with it: refresh and `serve` (refresh/orders.py), provision and release (pool/offering.py).
"""

from bullpen.operate.drain import drain as _drain
from bullpen.operate.noted import noted
from bullpen.operate.outcome import OperateOutcome, OperatorDeed
from bullpen.operate.pauses import pause as _pause
from bullpen.operate.pauses import resume as _resume
from bullpen.operate.rotate import rotate as _rotate

__all__ = ["OperateOutcome", "OperatorDeed", "drain", "pause", "resume", "rotate"]

drain, pause, resume, rotate = noted(_drain), noted(_pause), noted(_resume), noted(_rotate)
