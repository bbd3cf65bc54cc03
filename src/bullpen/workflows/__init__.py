"""Workflow runs of GitHub: their runners are released when they end, and their lost jobs are run again.

    controller        which runs to reconcile, and when: a webhook wakes it, polling finds the rest
    lasting_jobs      members of scale sets that have reported the same job for minutes
    holdings          what the pool holds for each run: live instances, open provisions, lost workers
    machine_state     whether the machine of a lost worker is gone; a runner that GitHub sees online is left alone
    reconcile_run     one run: ask GitHub for its status, and act on it
    release_ended     the run completed: its runners go back to the pool, and stale ones are ended
    rescue            its lost jobs are run again, where that is allowed and safe
    replace_runners   jobs wait for a label that has lost all its runners: replace them, or cancel the run
    reprovision       runners for a label, like those it had
    settle_losses     nothing is owed for a lost worker any more; members of scale sets whose workers are forgotten end
    alerts            what was done, and what an operator must know

The lost worker itself is in `bullpen.liveness.lost_worker`.

Between two passes this package remembers only since when it waits for something. The debt is on the record of the lost
worker, and everything else is asked of GitHub when it matters. So a crash anywhere is the same as a pass that has not
begun.
"""
