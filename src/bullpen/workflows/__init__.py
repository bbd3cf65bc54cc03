"""The runs of a CI that has jobs of its own: given back when they end, and their lost jobs run again.

    follower    which runs to look at, and when: a webhook wakes, polling is the backstop
    holdings    what we have of each run: live instances, open provisions, losses
    loss        a lost worker as its run sees it: the job that it ran, the label that it served
    proof       whether the machine of a lost worker is gone; a runner that GitHub sees is left alone
    look        one look at one run, and what follows from it
    ended       the run is over: everything goes back to the pool
    rescue      its lost jobs are run again, where that was asked for and is safe
    stranded    jobs wait for a label that nobody serves any more
    stale       an agent names a job of a run that is over, and holds up its machine for it
    runners     runners for a label, like those it had
    saying      what was done, and what an operator must know

Nothing here is remembered between looks but since when to look: the debt is the lost worker's own, everything else is
asked of the CI when it matters. So a crash anywhere is the same as not having looked yet.
"""
