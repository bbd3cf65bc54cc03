"""The infrastructure of a pool on AWS: table, queues and templates, IAM policies, Terraform, and the doctor."""
