"""A synthetic month of GPU jobs: any number of them, the same for the same seed."""

import math
from datetime import datetime, timedelta
from random import Random

from receiver.replay.world.objects import Job

DAY = timedelta(days=1)
MEDIAN_SECONDS = 900.0  # of a job; the mean is 4.5 times that
SIGMA = 1.735  # of the logarithm: mean / median = exp(SIGMA ** 2 / 2)
LONGEST = timedelta(days=2)
QUIETEST, BUSIEST = 4, 16  # hours of the day, UTC
SWING = 0.8  # at the busiest hour (1 + SWING) times the mean come, at the quietest (1 - SWING) times
GPUS = (1, 1, 1, 1, 2, 2, 4, 8)  # of a pod, each as likely as the next
GANGS = (1, 1, 1, 1, 1, 1, 1, 2, 2, 4)  # pods of a job


def a_month(count: int, seed: int, start: datetime, days: int = 30) -> list[Job]:
    """Return *count* jobs of *days* days from *start*, in order of submission.

    They come as a Poisson process does whose rate follows the hour of the day (given their number, its moments are
    independent draws); durations are lognormal, pods hold 1 to 8 GPUs, and jobs of several pods are gangs.
    """
    dice = Random(f"{seed} {count} {days}")
    moments = sorted(_moment(dice, days) for _ in range(count))
    return [_job(number, start + moment, dice) for number, moment in enumerate(moments)]


def _moment(dice: Random, days: int) -> timedelta:
    """One draw from the days, thinned by the hour: https://en.wikipedia.org/wiki/Rejection_sampling."""
    while True:
        at = dice.uniform(0, days)
        hour = at % 1 * 24
        share = 1 + SWING * math.cos((hour - BUSIEST) / 24 * 2 * math.pi)
        if dice.uniform(0, 1 + SWING) < share:
            return timedelta(seconds=round(at * DAY.total_seconds(), 3))


def _job(number: int, at: datetime, dice: Random) -> Job:
    seconds = dice.lognormvariate(math.log(MEDIAN_SECONDS), SIGMA)
    pods = dice.choice(GANGS)
    return Job(
        id=f"job-{number}",
        submit_at=at,
        duration=min(max(timedelta(seconds=round(seconds, 3)), timedelta(seconds=1)), LONGEST),
        pods=pods,
        gpus_per_pod=dice.choice(GPUS),
        gang=pods > 1,
        namespace="replay",
    )
