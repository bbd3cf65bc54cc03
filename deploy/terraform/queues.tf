# Each message of a queue is a ticket: an idle instance on offer.
#
# Do not add a redrive policy. It would move tickets to a queue that Bullpen does not read.
resource "aws_sqs_queue" "class" {
  for_each = toset(var.queues)

  name                       = each.key
  message_retention_seconds  = 1209600 # 14 days, the maximum: longer than any threshold
  visibility_timeout_seconds = 30      # after that, another run sees a ticket whose taker died
  delay_seconds              = 0
  sqs_managed_sse_enabled    = true

  tags = local.tags
}
