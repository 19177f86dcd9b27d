"""Worlds that are played again and again, by seed. Those of every fifth seed run on SQLite, the others in memory.

`make test` plays FEW: the cheapest that together have every kind of event and fault, and one more for SQLite.
`make faults FIXED=1` plays all.
"""

FEW = (18, 149, 239, 304, 503, 513, 568, 672, 685, 828, 880)
# Together they run every line of the step, of scaling, of the store and of the checks that the 48 worlds from seeds 1
# to 24 and 81 to 104 run.
LINES = (
    *(4, 13, 17, 31, 54, 56, 57, 59, 83, 86, 88, 89, 90, 100, 103),
    *(203, 221, 260, 267, 272, 303, 369, 385, 546, 571, 604, 624, 634, 728, 899),
)
# Those in which `make faults` found the product wrong.
FOUND = (30000146, 30000217, 30000282, 30000462, 30001550, 30001827, 30002745, 30003280)
OBSERVED = (1, 2, 5)  # in observe mode
