locals {
  # Everything that a claim needs to know about an instance, so that the index alone answers.
  instance_attributes = [
    "state",
    "version",
    "threshold",
    "runId",
    "round",
    "provisionId",
    "attested",
    "trustDomain",
    "imageGeneration",
    "resourceClass",
    "instanceType",
    "usageClass",
    "cpu",
    "mem",
    "offeredAt",
    "owes",
    "purgeAt",
    "repository",
  ]
}

# One table holds all records of the pool. `bullpen refresh` compares it with what this version of Bullpen expects.
resource "aws_dynamodb_table" "pool" {
  name         = var.pool
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "PK"
  range_key    = "SK"

  # DynamoDB declares only the attributes that keys are made of.
  attribute {
    name = "PK"
    type = "S"
  }

  attribute {
    name = "SK"
    type = "S"
  }

  attribute {
    name = "runKey"
    type = "S"
  }

  attribute {
    name = "runSort"
    type = "S"
  }

  attribute {
    name = "poolKey"
    type = "S"
  }

  attribute {
    name = "dueKey"
    type = "S"
  }

  attribute {
    name = "dueSort"
    type = "S"
  }

  attribute {
    name = "todoKey"
    type = "S"
  }

  attribute {
    name = "todoSort"
    type = "S"
  }

  attribute {
    name = "liveKey"
    type = "S"
  }

  # What belongs to a run: its instances, provisions and jobs.
  global_secondary_index {
    name            = "run"
    hash_key        = "runKey"
    range_key       = "runSort"
    projection_type = "KEYS_ONLY"
  }

  # The instances of a resource class that are on offer, launching or promised to a run.
  global_secondary_index {
    name               = "pool"
    hash_key           = "poolKey"
    range_key          = "SK"
    projection_type    = "INCLUDE"
    non_key_attributes = local.instance_attributes
  }

  # What must be checked at a certain time: thresholds, leases, verifications.
  global_secondary_index {
    name            = "due"
    hash_key        = "dueKey"
    range_key       = "dueSort"
    projection_type = "KEYS_ONLY"
  }

  # Debts that are still to be paid, and jobs that wait for a worker.
  global_secondary_index {
    name            = "todo"
    hash_key        = "todoKey"
    range_key       = "todoSort"
    projection_type = "KEYS_ONLY"
  }

  # Everything that has not ended, for lists and counts.
  global_secondary_index {
    name               = "live"
    hash_key           = "liveKey"
    range_key          = "SK"
    projection_type    = "INCLUDE"
    non_key_attributes = concat(local.instance_attributes, ["domain"])
  }

  ttl {
    attribute_name = "ttl"
    enabled        = true
  }

  point_in_time_recovery {
    enabled = true
  }

  # The records are worthless once the instances are gone.
  deletion_protection_enabled = false

  tags = local.tags
}
