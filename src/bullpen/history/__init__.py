"""History: who owned the seconds of machines and what they cost, how long provisions waited, and what was done and why.

spans       the story of a machine as time with owners; pure
bookkeeper  books that time by the hour, exactly once
prices      what an hour of a machine costs
amounts     time of machines and what it cost
reuse       what reuse saved
cost        the answer of `bullpen cost`
latencies   waits and boot times, from the reports of provisions
activity    stores the actions of refresh and serve
"""
