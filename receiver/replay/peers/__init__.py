"""Other autoscalers, each after its documented defaults, to compare policies with."""
