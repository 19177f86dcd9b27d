"""Repeating a decision: a stored one (`replay --decision`), and one in a file without names that `explain decision
--bundle` wrote (`replay --decision FILE`)."""

OPTIONS = {"explain decision": "command:WRITE_BUNDLE", "replay": "command:REPEAT_DECISION"}
