"""The pool on AWS: DynamoDB for records, SQS for tickets, EC2 for machines; one file per port."""
