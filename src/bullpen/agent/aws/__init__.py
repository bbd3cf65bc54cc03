"""An agent on EC2: how it boots, proves which instance it is, signs requests, and hears of interruptions."""
