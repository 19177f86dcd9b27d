"""A report's document as text, as a table and as a page: what `gpu-autoscaler report` prints."""
