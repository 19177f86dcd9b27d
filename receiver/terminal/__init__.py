"""What the commands of `receiver.cli` and of capabilities share: calls of the server, printing, options."""

PROGRAM = "gpu-autoscaler"
