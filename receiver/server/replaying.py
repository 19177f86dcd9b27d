"""``python -m receiver.server.replaying``: replay a time that was observed (`receiver.runtime.observing`).

Reads a `ReplayAsked` as JSON, and writes a `WouldHave`. With exit status 1 the last line on standard error says why
there is none.
"""

import logging
import os
import resource
import sys
from dataclasses import replace
from datetime import timedelta

import structlog

from receiver.adapters.monitoring.history import PrometheusHistory
from receiver.capabilities.registry import step_additions
from receiver.ports import TryLater, WontWork
from receiver.replay.observed import Watched, would_have
from receiver.replay.play import Setting
from receiver.runtime.observing import ASKED, FOUND, ReplayAsked

CPU_SECONDS = 600
MEMORY_BYTES = 256 * 1024 * 1024  # the pod's limit is 512 MiB
NICE = 19
STEP = timedelta(seconds=30)  # between two scrapes of kube-state-metrics, in most clusters


def setting_of(request: ReplayAsked) -> Setting:
    """Return the circumstances of the replay, as `gpu-autoscaler replay` takes them from a configuration."""
    billing = request.policy.billing
    setting = Setting(
        billing="hour" if billing.by_the_hour else "second", granularity=billing.granularity, tick=request.tick
    )
    return setting if request.watch else replace(setting, watch=None)


def main() -> None:
    """Replay within the limits of this process."""
    os.nice(NICE)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    request = ASKED.validate_json(sys.stdin.buffer.read())
    try:
        history = PrometheusHistory(request.prometheus, team_label=request.policy.attribution.team)
        past = history.past(request.since, request.until, STEP)
        watched = Watched(since=request.since, until=request.until, lives=request.lives, past=past)
        outcome = would_have(watched, request.policy, setting_of(request), step_additions())
    except (TryLater, WontWork, ValueError) as error:
        sys.exit(str(error))
    except MemoryError:
        sys.exit("it takes more memory than the server has for it: replay it on another machine")
    sys.stdout.buffer.write(FOUND.dump_json(outcome))


if __name__ == "__main__":
    main()
