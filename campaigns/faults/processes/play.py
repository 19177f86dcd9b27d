"""Play one schedule: troubles, then calm until everything that should happen has happened."""

import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from campaigns.faults.processes.happen import Happenings
from campaigns.faults.processes.mail import Mail
from campaigns.faults.processes.schedule import Schedule
from campaigns.faults.processes.settled import unsettled
from campaigns.faults.processes.stage import MISLAID, Stage, staged
from tests.e2e.receivers import Receiver
from tests.e2e.waiting import until

STARTS_WITHIN = 120.0  # seconds; the machine may be busy
CALM_WITHIN = 120.0
LOOK_EVERY = 0.2
BEAT_EVERY = 2.0
SKIPS = (4, 4, 6, 6, 10, 10, 15, 15, 30, 30, 30, 60, 60, 60, 120, 120, 240)  # seconds that are over at once, then again
SKIP_EVERY = 0.8
EXPECTED = ("writer lock not reached",)  # the log's exceptions that a fault brings about
COLUMN_MISLAID = re.compile(rf"no (such )?column.*{MISLAID}|column .*{MISLAID}.* does not exist")


@dataclass(slots=True)
class Result:
    """What became of one schedule: *message* is empty when the invariants held."""

    seed: int
    message: str = ""
    seconds: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    lines: set[str] = field(default_factory=set)


def play(schedule: Schedule, tell: Callable[[str], None] | None = None) -> Result:
    """Run *schedule* in processes of its own. *tell* gets its events, line by line."""
    began, result = time.monotonic(), Result(schedule.seed)
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with staged(schedule, folder) as stage:
            playing = Playing(stage, result, tell)
            try:
                violations = playing.go()
            finally:
                playing.mail.close()
            result.message = "\n".join(dict.fromkeys(violations))
            died = folder / "died"
            result.lines = set(died.read_text().splitlines()) if died.exists() else set()
            result.counts["killed at a line"] = len(died.read_text().splitlines()) if died.exists() else 0
            if result.message and tell:
                tell(stage.receiver.said()[-6000:])
    result.seconds = time.monotonic() - began
    return result


class Playing:
    """One schedule under way."""

    def __init__(self, stage: Stage, result: Result, tell: Callable[[str], None] | None) -> None:
        self._stage, self._result, self._tell = stage, result, tell
        self.mail = Mail(stage.receiver, result.counts)
        self._happenings = Happenings(stage, self.mail, result.counts)
        self._violations: list[str] = []
        self._began = time.monotonic()
        self._beat_at = 0.0
        self._beats = True

    def go(self) -> list[str]:
        """Play it all; return what did not hold."""
        receiver = self._stage.receiver.start(forked=False)  # a fork has its imports, and `inside` would change none
        until(lambda: self._started(receiver), "a first step", STARTS_WITHIN)
        self._began = time.monotonic()
        for event in self._stage.schedule.events:
            self._wait_until(event.at)
            self._say(f"* {event.kind} {event.what or ''}")
            self._happenings.happen(event)
            self._look()
            if self._found():
                return self._found()
        self._wait_until(self._stage.schedule.troubled)
        self._calm()
        self._afterwards()
        return self._found()

    def _started(self, receiver: Receiver) -> bool:
        if receiver.server.ended_by_itself:
            raise RuntimeError(f"the receiver does not start:\n{receiver.said()}")
        return bool(receiver.health()["steps"] >= 1)

    def _wait_until(self, second: float) -> None:
        while time.monotonic() < self._began + second and not self._found():
            time.sleep(min(LOOK_EVERY, max(0.0, self._began + second - time.monotonic())))
            self._look()

    def _look(self) -> None:
        """Between events: keep the server up, give signs of life, and judge the store."""
        self._happenings.go_on()
        if time.monotonic() - self._beat_at > BEAT_EVERY and self._beats:
            self._beat_at = time.monotonic()
            self.mail.beat()
        for pool, count in self._rows(TWO_OPEN):
            self._violations.append(f"4 one open action: {count} of pool {pool}")

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        try:
            return self._stage.receiver.rows(query)
        except Exception as error:  # noqa: BLE001  # what cannot be read now is read at the end
            self._say(f"  the store cannot be read: {error}")
            return []

    def _found(self) -> list[str]:
        return [*self._stage.witness.violations, *self.mail.violations, *self._violations]

    def _calm(self) -> None:
        while self._happenings.under_way and not self._found():
            time.sleep(LOOK_EVERY)
            self._look()
        self._say("--- calm from here on")
        self._happenings.calm()
        deadline, number, skipped = time.monotonic() + CALM_WITHIN, 0, time.monotonic()
        left: list[str] = ["nothing was looked at"]
        while left and time.monotonic() < deadline and not self._found():
            time.sleep(LOOK_EVERY)
            self._beats = left != [UNDER_WAY]
            self._look()
            left = self._left()
            if not left and self.mail.under_way:
                left = [UNDER_WAY]
            if left and time.monotonic() - skipped > SKIP_EVERY:
                skipped = time.monotonic()
                self._stage.clock.skip(SKIPS[min(number, len(SKIPS) - 1)])
                number += 1
        if self._found():
            return
        late = [what for what in left if what.startswith("delivery")]
        others = [what for what in left if what not in late]
        if late:
            self._violations.append(f"3 considered: {'; '.join(late)}")
        if others:
            self._violations.append(f"5 settles: {len(others)} things left: {'; '.join(others)}")

    def _left(self) -> list[str]:
        try:
            return unsettled(self._stage)
        except Exception as error:  # noqa: BLE001  # the server may be starting, the store be locked
            return [f"not to be seen: {error}"]

    def _afterwards(self) -> None:
        """What can be judged at the end only: every delivery, every decision, and what the log says of bugs."""
        stage, counts = self._stage, self._result.counts
        kept = {number for (number,) in self._rows("SELECT id FROM deliveries")}
        if lost := self.mail.taken - kept:
            self._violations.append(f"3 survives: deliveries {sorted(lost)} were answered 2xx and are not in the store")
        self._decisions()
        for line in stage.receiver.said().splitlines():
            said = _json(line)
            if (
                "exception" in said
                and said.get("event") not in EXPECTED
                and not COLUMN_MISLAID.search(said["exception"])
            ):
                self._violations.append(f"bug: {said.get('event')}: {said['exception'][-1500:]}")
        counts["stale list"] += stage.witness.stale_answers
        counts.update({"PUT": stage.witness.puts, "DELETE": stage.witness.deletes, "eviction": stage.witness.evictions})
        counts["delivery kept"] += len(kept)
        counts["starts"] += stage.receiver.said().count("Booting worker")
        counts.update({f"met: {what}": often for what, often in stage.faces.struck.items()})
        for entry in stage.cloud.log.entries():
            if entry["fault"]:
                counts[f"met: {entry['face']} {entry['method']} {entry['fault']}"] += 1

    def _decisions(self) -> None:
        try:
            told = self._stage.receiver.get("/api/v1/decisions?limit=200").json()
        except requests.RequestException as error:
            self._violations.append(f"5 settles: the API does not answer: {error}")
            return
        for decision in told:
            if decision["reasons"] and decision["reasons"][-1]["target"] != decision["to"]:
                self._violations.append(f"7 last reason: decision {decision['id']}")
        self._result.counts["decisions"] += len(told)

    def _say(self, line: str) -> None:
        if self._tell:
            self._tell(f"{time.monotonic() - self._began:6.2f} {line}")


UNDER_WAY = "a delivery is under way"
TWO_OPEN = "SELECT pool, count(*) FROM actions WHERE outcome IS NULL GROUP BY pool HAVING count(*) > 1"


def _json(line: str) -> dict[str, Any]:
    if not line.startswith("{"):
        return {}
    try:
        found: dict[str, Any] = json.loads(line)
    except ValueError:
        return {}  # a line that a kill cut short
    return found
