"""The pool on AWS.

session, errors   the way there, and what comes back
dynamodb          records, signals, leases, jobs
sqs               tickets
ec2               machines
boot              how a machine gets its agent
ground            what all of it stands on
"""
