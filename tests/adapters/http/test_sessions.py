"""What every session does: which calls it repeats, and how it reads times."""

from datetime import UTC, datetime
from typing import Any

import pytest
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    MaxRetryError,
    NewConnectionError,
    ProtocolError,
    ReadTimeoutError,
)

from receiver.adapters.http.sessions import moment, quick_retry

POOL = HTTPConnectionPool("127.0.0.1")
REFUSED: Any = NewConnectionError(POOL, "connection refused")  # type: ignore[arg-type]  # any object will do
BROKEN = ProtocolError("connection aborted")
DROPPED = ConnectTimeoutError("timed out")


def test_the_pauses_before_a_read_is_repeated_are_half_a_second_in_all() -> None:
    retry, pauses = quick_retry(), list[float]()
    for _ in range(2):
        retry = retry.increment("GET", "/", error=BROKEN, _pool=POOL)
        pauses.append(retry.get_backoff_time())
    assert pauses == [0, 0.4]


@pytest.mark.parametrize("error", [REFUSED, BROKEN, DROPPED], ids=["refused", "broken", "dropped"])
@pytest.mark.parametrize("method", ["PUT", "POST", "PATCH", "DELETE"])
def test_a_write_is_tried_once(method: str, error: Exception) -> None:
    with pytest.raises(MaxRetryError):
        quick_retry().increment(method, "/", error=error, _pool=POOL)


@pytest.mark.parametrize("error", [REFUSED, BROKEN], ids=["refused", "broken"])
def test_a_read_without_a_connection_is_tried_again_twice(error: Exception) -> None:
    again = quick_retry().increment("GET", "/", error=error, _pool=POOL)
    again = again.increment("GET", "/", error=error, _pool=POOL)
    with pytest.raises(MaxRetryError):
        again.increment("GET", "/", error=error, _pool=POOL)


@pytest.mark.parametrize("error", [DROPPED, ReadTimeoutError(POOL, "/", "timed out")], ids=["to connect", "to read"])
def test_a_read_that_took_its_time_already_is_not_tried_again(error: Exception) -> None:
    with pytest.raises((MaxRetryError, ReadTimeoutError)):
        quick_retry().increment("GET", "/", error=error, _pool=POOL)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-11-20T12:00:00Z", datetime(2026, 11, 20, 12, tzinfo=UTC)),
        ("2026-11-20T13:00:00.123456789+01:00", datetime(2026, 11, 20, 12, 0, 0, 123456, tzinfo=UTC)),
        (" 2026-11-20T12:00:00 ", datetime(2026, 11, 20, 12, tzinfo=UTC)),
        ("0001-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59-01:00", None),
        ("yesterday", None),
        (1795003200, None),
        (None, None),
    ],
)
def test_a_time_is_read_in_utc_and_gos_zero_time_is_none(text: object, at: datetime | None) -> None:
    assert moment(text) == at
