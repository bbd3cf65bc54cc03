# What the other files share. Each of them has one subject:
#
#   table.tf              the DynamoDB table with the pool's records
#   queues.tf             the SQS queues, one per resource class
#   launch_templates.tf   the launch templates
#   iam.tf                the roles, the instance profile and the OIDC provider for GitHub
#   policies.tf           what each role may do (generated)

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account    = data.aws_caller_identity.current.account_id
  partition  = data.aws_partition.current.partition
  dns_suffix = data.aws_partition.current.dns_suffix # services have other names in China: ec2.amazonaws.com.cn
  region     = data.aws_region.current.name

  # Bullpen recognizes the resources of a pool by this tag, and the policies grant access by it.
  tags = { "bullpen:pool" = var.pool }
}
