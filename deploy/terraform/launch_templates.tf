# Bullpen computes the content of each template, because its name is the hash of its content, and the content pins the
# version of the agent. This file translates the field names of EC2's LaunchTemplateData to those of the AWS provider.
resource "aws_launch_template" "class" {
  for_each = var.launch_templates

  name                                 = each.key
  image_id                             = each.value.data.ImageId
  instance_initiated_shutdown_behavior = each.value.data.InstanceInitiatedShutdownBehavior
  user_data                            = each.value.data.UserData
  vpc_security_group_ids               = try(each.value.data.SecurityGroupIds, null)

  # The settings name the profile by its name or by its ARN.
  iam_instance_profile {
    name = try(each.value.data.IamInstanceProfile.Name, null)
    arn  = try(each.value.data.IamInstanceProfile.Arn, null)
  }

  metadata_options {
    http_endpoint               = each.value.data.MetadataOptions.HttpEndpoint
    http_tokens                 = each.value.data.MetadataOptions.HttpTokens
    http_put_response_hop_limit = each.value.data.MetadataOptions.HttpPutResponseHopLimit
  }

  instance_requirements {
    vcpu_count {
      min = each.value.data.InstanceRequirements.VCpuCount.Min
    }

    memory_mib {
      min = each.value.data.InstanceRequirements.MemoryMiB.Min
    }

    burstable_performance                            = each.value.data.InstanceRequirements.BurstablePerformance
    on_demand_max_price_percentage_over_lowest_price = each.value.data.InstanceRequirements.OnDemandMaxPricePercentageOverLowestPrice
    spot_max_price_percentage_over_lowest_price      = each.value.data.InstanceRequirements.SpotMaxPricePercentageOverLowestPrice
    cpu_manufacturers                                = try(each.value.data.InstanceRequirements.CpuManufacturers, null)
    allowed_instance_types                           = try(each.value.data.InstanceRequirements.AllowedInstanceTypes, null)
  }

  dynamic "block_device_mappings" {
    for_each = try(each.value.data.BlockDeviceMappings, [])

    content {
      device_name = block_device_mappings.value.DeviceName

      ebs {
        volume_size           = block_device_mappings.value.Ebs.VolumeSize
        volume_type           = block_device_mappings.value.Ebs.VolumeType
        delete_on_termination = block_device_mappings.value.Ebs.DeleteOnTermination
      }
    }
  }

  dynamic "tag_specifications" {
    for_each = each.value.data.TagSpecifications

    content {
      resource_type = tag_specifications.value.ResourceType
      tags          = { for tag in tag_specifications.value.Tags : tag.Key => tag.Value }
    }
  }

  tags = each.value.tags

  # The templates name the profile as text, so Terraform does not see that they need it.
  depends_on = [aws_iam_instance_profile.instance]
}
