"""The GitHub action: reads the inputs, provisions, releases or refreshes, and reports on the page of the run.

    inputs  input_specs  input_types  aliases     inputs and their values; inputs of other actions
    job_context  pool_location                    the run of this job; where the pool is
    via_server  serve_client  oidc  http          with `server`: `bullpen serve` does the work, over HTTP
    in_job  load_settings  settings_document      without it: the engines run in this job
    install                                       packages that the engines need
    report  result  workflow_commands             outputs, summary, annotations, log
    cancellation                                  signals of a cancelled step

The path through a server needs only the standard library: it starts at once and installs nothing.
"""
