terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.81" # the first version that needs no thumbprint for the OIDC provider
    }
  }
}
