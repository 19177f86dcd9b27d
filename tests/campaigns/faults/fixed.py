"""The worlds that every test run plays, by seed.

They were chosen among the first nine hundred by what they run, for the least time: together every kind of event and
fault, and every line of the step, of scaling, of the store and of the checks, that the 48 worlds from seeds 1 to 24 and
81 to 104 run. `make faults` plays thousands. Those of every fifth seed run on SQLite, the others in memory.
"""

ONE = (4, 17, 54, 57, 83, 100, 203, 260, 267, 272, 369, 385, 571, 634)
TWO = (13, 31, 56, 59, 86, 88, 89, 90, 103, 221, 303, 546, 604, 624, 728, 899)
# Those in which `make faults` found the product wrong.
FOUND = (30000146, 30000217, 30000282, 30000462, 30001550, 30001827, 30002745, 30003280)
OBSERVED = (1, 2, 5)
