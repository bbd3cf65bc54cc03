"""The pool on AWS.

session, errors   clients, and the errors of AWS as Bullpen's
dynamodb          records, signals, leases, jobs
sqs               tickets
ec2               machines
boot              how a machine gets its agent and proves its identity
infrastructure    table, queues, templates, policies; doctor
"""
