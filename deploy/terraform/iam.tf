# Instances

resource "aws_iam_role" "instance" {
  name = var.instance_profile

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { Service = "ec2.${local.dns_suffix}" }
        Action    = "sts:AssumeRole"
      },
    ]
  })

  tags = local.tags
}

resource "aws_iam_policy" "instance" {
  name = var.instance_profile

  policy = (
    var.served ? jsonencode(local.served_instance_policy) :
    var.on_github ? jsonencode(local.github_instance_policy) :
    jsonencode(local.instance_policy)
  )

  tags = local.tags
}

resource "aws_iam_role_policy_attachment" "instance" {
  role       = aws_iam_role.instance.name
  policy_arn = aws_iam_policy.instance.arn
}

resource "aws_iam_instance_profile" "instance" {
  name = var.instance_profile
  role = aws_iam_role.instance.name
  tags = local.tags
}

# Control plane: refresh, serve and doctor. The policy always exists; the role only if a principal may assume it.

resource "aws_iam_role" "control_plane" {
  count = length(var.control_plane_principals) > 0 ? 1 : 0

  name = "${var.pool}-control-plane"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { AWS = var.control_plane_principals }
        Action    = "sts:AssumeRole"
      },
    ]
  })

  tags = local.tags
}

resource "aws_iam_policy" "control_plane" {
  name   = "${var.pool}-control-plane"
  policy = jsonencode(local.control_plane_policy)
  tags   = local.tags
}

resource "aws_iam_role_policy_attachment" "control_plane" {
  count = length(var.control_plane_principals) > 0 ? 1 : 0

  role       = aws_iam_role.control_plane[0].name
  policy_arn = aws_iam_policy.control_plane.arn
}

# GitHub workflows. They prove their repository with an OIDC token, so they need no stored credentials.

locals {
  github_provider = (
    var.github_provider_arn != "" ? var.github_provider_arn : one(aws_iam_openid_connect_provider.github[*].arn)
  )
}

resource "aws_iam_openid_connect_provider" "github" {
  count = length(var.github_subjects) > 0 && var.github_provider_arn == "" ? 1 : 0

  url            = "https://token.actions.githubusercontent.com"
  client_id_list = ["sts.${local.dns_suffix}"]
  tags           = local.tags
}

resource "aws_iam_role" "workflow" {
  count = length(var.github_subjects) > 0 ? 1 : 0

  name = "${var.pool}-workflow"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Principal = { Federated = local.github_provider }
        Action    = "sts:AssumeRoleWithWebIdentity"
        Condition = {
          StringEquals = { "token.actions.githubusercontent.com:aud" = "sts.${local.dns_suffix}" }
          StringLike   = { "token.actions.githubusercontent.com:sub" = var.github_subjects }
        }
      },
    ]
  })

  tags = local.tags
}

resource "aws_iam_policy" "workflow" {
  name   = "${var.pool}-workflow"
  policy = var.workflows_launch ? jsonencode(local.launching_workflow_policy) : jsonencode(local.workflow_policy)
  tags   = local.tags
}

resource "aws_iam_role_policy_attachment" "workflow" {
  count = length(var.github_subjects) > 0 ? 1 : 0

  role       = aws_iam_role.workflow[0].name
  policy_arn = aws_iam_policy.workflow.arn
}
