"""Where a request ends, however it comes in pieces."""

import pytest

from receiver.config import values
from receiver.server.gunicorn_worker import LARGEST_HEAD, MOST_BYTES
from receiver.server.request_buffer import Arriving

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
    arriving = Arriving(until=0.0)
    seen = []
    for n in range(len(whole)):
        arriving.bytes += whole[n : n + 1]
        seen.append(arriving.complete(LARGEST_DELIVERY))
    assert seen == [False] * (len(whole) - 1) + [True]
    at_once = Arriving(until=0.0)
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
    arriving = Arriving(until=0.0)
    arriving.bytes += b"POST / HTTP/1.1\r\n" + head + b"\r\n\r\n"
    assert arriving.complete(LARGEST_DELIVERY)


def test_the_largest_delivery_that_may_be_configured_can_be_held() -> None:
    assert values.LARGEST_DELIVERY + LARGEST_HEAD <= MOST_BYTES
