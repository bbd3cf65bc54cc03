"""The JSON of Bullpen: one struct for each thing that the command line (`--json`) and the HTTP API speak of.

    answers    instance, job, worker, provision, release, run, status, story, why, plan, queue, control,
               series, session, operation, upkeep, error
    agent      what only agents are answered
    requests   what the HTTP API is asked; its bounds are in `bullpen.model.limits`

A thing's own id is `id` (a worker's is its `key`), a reference to another thing is `runId`, `instanceId`, `jobId` or
`provisionId`. Fields are camelCase, times end in `At` and are UTC in whole seconds. States, results, phases and kinds
are enums: a program compares them, and never a sentence. `reason`, `remedy` and `why` are sentences for people.

The action and the agent use only the standard library, so they cannot import these structs. A test compares the fields
and values that they read and write with the ones here.
"""
