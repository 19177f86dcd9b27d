"""The servers of these tests are clusters and clouds without Dynamic Resource Allocation unless they say otherwise."""

import re

import pytest
from pytest_httpserver import HTTPServer


@pytest.fixture(autouse=True)
def without_dra(httpserver: HTTPServer) -> None:
    """Answer 404 for the group."""
    answer = {"kind": "Status", "reason": "NotFound", "code": 404}
    httpserver.expect_request(re.compile(r"^/apis/resource\.k8s\.io/")).respond_with_json(answer, status=404)
