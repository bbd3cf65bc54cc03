# `bullpen config terraform` prints the values of the variables down to launch_templates. They follow from bullpen.toml
# and from the version of Bullpen: write them to bullpen.auto.tfvars.json instead of setting them by hand.

variable "pool" {
  description = "Name of the pool (aws.pool). It is the name of the table and the prefix of queues and roles."
  type        = string
}

variable "image" {
  description = "AMI of every class that names none of its own (aws.image)."
  type        = string
}

variable "images" {
  description = "Every AMI that instances are launched from (aws.image and classes.NAME.image)."
  type        = list(string)
}

variable "subnets" {
  description = "Subnets that instances are launched into (aws.subnets)."
  type        = list(string)
}

variable "security_groups" {
  description = "Security groups of the instances (aws.security-groups)."
  type        = list(string)
  default     = []
}

variable "instance_profile" {
  description = "Name of the instances' profile (aws.instance-profile). Their role and its policy get the same name."
  type        = string
}

variable "served" {
  description = "Whether agents connect to `bullpen serve` (agent.serve-url is set) instead of the table."
  type        = bool
  default     = false
}

variable "on_github" {
  description = "Whether instances run GitHub Actions runners (engines.ci is github)."
  type        = bool
  default     = false
}

variable "queues" {
  description = "Names of the queues, one per resource class."
  type        = list(string)
}

variable "launch_templates" {
  description = "Launch templates by name, each with its tags and with its content as EC2's LaunchTemplateData."
  type        = any
}

# You choose the values of the following variables.

variable "control_plane_principals" {
  description = "ARNs that may assume the role for refresh, serve and doctor. If empty, no role is created: attach the policy yourself."
  type        = list(string)
  default     = []
}

variable "github_subjects" {
  description = "OIDC subjects of the workflows that may provision: repo:OWNER/NAME:… or repo:OWNER@ID/NAME@ID:…, optionally with a * at the end. If empty, no role is created."
  type        = list(string)
  default     = []

  validation {
    # A wildcard in the owner or the name would let workflows of other repositories assume the role.
    condition     = alltrue([for subject in var.github_subjects : can(regex("^repo:[^*/:]+/[^*/:]+:.+$", subject))])
    error_message = "Each subject must name its repository in full, as in repo:OWNER/NAME:… or repo:OWNER@ID/NAME@ID:…"
  }
}

variable "workflows_launch" {
  description = "Whether these workflows may launch instances. They are then trusted like the control plane."
  type        = bool
  default     = false
}

variable "github_provider_arn" {
  description = "ARN of the account's OIDC provider for GitHub. If empty, the module creates it; an account can have only one."
  type        = string
  default     = ""
}
