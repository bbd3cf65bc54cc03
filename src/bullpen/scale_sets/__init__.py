"""Scale sets: what a workflow names in `runs-on`, kept as the settings ask, and served by the pool's runners.

    rules             what the settings say about each set
    repository_ids    the ids of the repositories that sets name
    ownership         whose set it is that has a name at the CI
    desired           sets at the CI and in the records against the settings
    set_writes        the steps of a set, each with its side at the CI
    retirement        the end of a set at the CI, after its last runner
    stillness         since when no process has listened to a set
    session           one process of `serve` holds a set: the lease among replicas
    listener          hears of the set's jobs, writes that down, and only then acknowledges it
    offers            jobs that the CI offers, where they do not come assigned
    job_board         the jobs that wait and those that started, by the messages
    lapsed_runs       the end of runs whose jobs the CI has taken back
    started_jobs      jobs that a runner was given, until no rescue can need them
    queued_labels     labels of queued jobs that webhooks and lists show
    queued_hints      the same between processes, through the store
    queued_runs       the CI's list of queued jobs, for re-runs and wrong labels
    members           which instances serve a set, and what each of them does
    supply            how many runners the set needs, and which of them it does not need: pure
    waits             since when jobs wait, and why, for people
    wait_reason       the words for it, which name the setting: pure
    supplier          carries out what supply says, and writes down what others act on
    member_changes    renews, recalls and withdraws members
    claims            idle instances of the pool become members
    refused_versions  machines of a runner version that the CI refuses are retired
    holder            listener, supplier and lease of one set in one process
    controller        all sets of one process
    actions           what is done about sets and their runners, for the activity

`model.scale_set`, `model.set_session` and `model.set_member` have the records, `ports.ScaleSets` the CI's side.
"""
