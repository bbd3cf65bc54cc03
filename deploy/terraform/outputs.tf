output "bullpen_toml" {
  description = "Settings for bullpen.toml that match what this module creates."
  value       = <<-EOT
    [engines]
    pool = "aws"

    [aws]
    manage = "external"
    pool = "${var.pool}"
    region = "${local.region}"
    image = "${var.image}"
    instance-profile = "${aws_iam_instance_profile.instance.name}"
    subnets = ${jsonencode(var.subnets)}
    security-groups = ${jsonencode(var.security_groups)}
  EOT
}

output "control_plane_policy_arn" {
  description = "Policy for refresh, serve and doctor."
  value       = aws_iam_policy.control_plane.arn
}

output "control_plane_role_arn" {
  description = "Role for refresh, serve and doctor; null without control_plane_principals."
  value       = one(aws_iam_role.control_plane[*].arn)
}

output "workflow_role_arn" {
  description = "Role for GitHub workflows; null without github_subjects."
  value       = one(aws_iam_role.workflow[*].arn)
}
