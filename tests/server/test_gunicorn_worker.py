"""Where a request ends, however it comes in pieces, and what the worker relies on in gunicorn."""

import inspect
from typing import Any

import pytest

from receiver.config import values
from receiver.server.gunicorn_worker import (
    LARGEST_HEAD,
    MOST_BYTES,
    RELIES_ON,
    RELIES_ON_ATTRIBUTES,
    RELIES_ON_TEXTS,
    RequestBuffer,
)

LARGEST_DELIVERY = 1000
WHOLE = {
    "no body": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a body of none": b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "a body": b"POST / HTTP/1.1\r\ncontent-length:\t 6 \r\nX: Content-Length: 90\r\n\r\n{\r\n\r\n}",
    "a body whose length has zeros before it": b"POST / HTTP/1.1\r\nContent-Length: %s3\r\n\r\nabc" % (b"0" * 30),
    "chunks": b"POST / HTTP/1.1\r\nTransfer-Encoding: a, Chunked\r\n\r\n5\r\n0\r\n\r\n\r\n3;x=y\r\n789\r\n0\r\n\r\n",
    "chunks with a trailer": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n",
}


@pytest.mark.parametrize("whole", WHOLE.values(), ids=WHOLE.keys())
def test_a_request_is_complete_with_its_last_byte_and_not_before(whole: bytes) -> None:
    arriving = RequestBuffer(until=0.0)
    seen = []
    for n in range(len(whole)):
        arriving.bytes += whole[n : n + 1]
        seen.append(arriving.complete(LARGEST_DELIVERY))
    assert seen == [False] * (len(whole) - 1) + [True]
    at_once = RequestBuffer(until=0.0)
    at_once.bytes += whole
    assert at_once.complete(LARGEST_DELIVERY)


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 1001",
        b"Content-Length: 1" + b"0" * 30,
        b"Content-Length: 1" + b"0" * 5000,
        b"Transfer-Encoding: chunked\r\n\r\nno size",
        b"Content-Length: 5\r\nContent-Length: 6",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    ],
    ids=[
        "a body that is too large",
        "one beyond all disks",
        "one that is no number",
        "chunks that are none",
        "two lengths",
        "a length and chunks",
    ],
)
def test_what_will_be_refused_is_not_waited_for(head: bytes) -> None:
    arriving = RequestBuffer(until=0.0)
    arriving.bytes += b"POST / HTTP/1.1\r\n" + head + b"\r\n\r\n"
    assert arriving.complete(LARGEST_DELIVERY)


def test_the_largest_delivery_that_may_be_configured_can_be_held() -> None:
    assert values.LARGEST_DELIVERY + LARGEST_HEAD <= MOST_BYTES


@pytest.mark.parametrize(("where", "signature"), RELIES_ON.items(), ids=[f"{o.__name__}.{n}" for o, n in RELIES_ON])
def test_gunicorn_has_each_function_that_the_worker_relies_on_with_its_signature(
    where: tuple[Any, str], signature: str
) -> None:
    assert str(inspect.signature(getattr(*where))) == signature


@pytest.mark.parametrize(("owner", "names"), RELIES_ON_ATTRIBUTES.items(), ids=lambda it: getattr(it, "__name__", ""))
def test_gunicorns_constructors_set_each_attribute_that_the_worker_relies_on(
    owner: Any, names: tuple[str, ...]
) -> None:
    assert set(names) <= set(owner.__init__.__code__.co_names)


@pytest.mark.parametrize(("owner", "texts"), RELIES_ON_TEXTS.items(), ids=lambda it: getattr(it, "__name__", ""))
def test_gunicorn_logs_each_text_that_the_logger_relies_on(owner: Any, texts: tuple[str, ...]) -> None:
    assert all(text in inspect.getsource(owner) for text in texts)
