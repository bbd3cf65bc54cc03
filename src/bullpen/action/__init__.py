"""The GitHub action: inputs read, runners provisioned, released or refreshed, and the run's page told what happened.

    inputs.py   table.py   aliases.py   values.py     what a workflow may say, whose word it is, and what it means here
    served.py   server.py  identity.py                with `server`: over HTTP, by the job's own identity
    direct.py   told.py    packages.py                without: the engines in this job
    report.py   result.py  workflow.py                outputs, summary, log

Everything on the served path needs Python alone: it starts in a blink, and nothing is installed.
"""
