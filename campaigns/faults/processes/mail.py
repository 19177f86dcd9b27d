"""Alertmanager's deliveries to the receiver, in every order and number; it is kept what was answered 2xx."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from tests.e2e.receivers import Receiver
from tests.payloads import a_payload, an_alert, heartbeat

FIRING, RESOLVED = "firing", "resolved"
UNREADABLE = b'{"version": "4", "alerts": ['


class Mail:
    """Posts beside the schedule, since a stuck store makes an answer take its time."""

    def __init__(self, receiver: Receiver, counts: Counter[str]) -> None:
        self._receiver, self._counts = receiver, counts
        self._posting = ThreadPoolExecutor(8, thread_name_prefix="mail")
        self._lock = threading.Lock()
        self.taken: set[int] = set()  # the numbers of the deliveries that were answered 2xx
        self.violations: list[str] = []
        self.under_way = 0

    def close(self) -> None:
        """Wait for every answer."""
        self._posting.shutdown(wait=True)

    def beat(self) -> None:
        """Send the sign of life."""
        self._submit(heartbeat())

    def send(self, how: str) -> None:
        """Send what *how* names, see `schedule.DELIVERIES`."""
        messages: dict[str, list[Any]] = {
            "firing": [FIRING],
            "twice": [FIRING, FIRING],
            "six at once": [FIRING] * 6,
            "resolved first": [RESOLVED, FIRING],
            "false resolve": [FIRING, RESOLVED],
            "unreadable": [UNREADABLE],
        }
        for status in messages[how]:
            body = status if isinstance(status, bytes) else a_payload(an_alert(status))
            self._submit(body)

    def _submit(self, body: Any) -> None:
        with self._lock:
            self.under_way += 1
        self._posting.submit(self._posted, body)

    def _posted(self, body: Any) -> None:
        try:
            self._post(body)
        finally:
            with self._lock:
                self.under_way -= 1

    def _post(self, body: Any) -> None:
        readable = not isinstance(body, bytes)
        try:
            answer = self._receiver.post(body)
        except requests.RequestException:
            self._count("nobody answered")
            return
        self._count(f"answered {answer.status_code}")
        with self._lock:
            if readable and answer.status_code == 202:
                self.taken.add(int(answer.json()["delivery"]))
            elif readable and answer.status_code < 500:
                self.violations.append(f"3 refused: a delivery was answered {answer.status_code}: {answer.text[:200]}")
            elif not readable and answer.status_code < 300:
                self.violations.append(f"3 refused: what cannot be read was answered {answer.status_code}")

    def _count(self, what: str) -> None:
        with self._lock:
            self._counts[f"delivery {what}"] += 1
