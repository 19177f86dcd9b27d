"""An exception in one function of a step after another, and what the other pools got all the same."""
