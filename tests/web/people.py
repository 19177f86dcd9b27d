"""A person with a browser: logs in, fills in forms, follows redirects when a test says so."""

from dataclasses import dataclass
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.web.builders import OPERATOR, Bench
from tests.web.seen import Page


def field_of(html: str, name: str) -> str:
    """Return the value of the form field *name* on a page."""
    for tag, attributes in Page(html).elements:
        if tag == "input" and attributes.get("name") == name:
            return attributes.get("value") or ""
    raise AssertionError(f"no field {name}")


@dataclass
class Person:
    """Somebody at a browser of their own; cookies stay in it."""

    client: FlaskClient

    @classmethod
    def at(cls, bench: Bench) -> "Person":
        return cls(bench.client())

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.client.get(path, headers=headers)

    def send(self, path: str, form: dict[str, Any], **headers: str) -> TestResponse:
        return self.client.post(path, data=form, headers={"Origin": "http://localhost", **headers})

    def log_in(self, token: str = OPERATOR, wanted: str = "/") -> TestResponse:
        return self.send("/login", {"token": token, "next": wanted})

    def fill_in(self, path: str, form: dict[str, Any], page: str | None = None) -> TestResponse:
        """Open *page* (the path itself unless it is said), and send its form with what *form* says."""
        token = field_of(self.get(page or path).text, "form_token")
        return self.send(path, {"form_token": token, **form})


def bearer(token: str) -> dict[str, str]:
    """The header of a program that has *token*."""
    return {"Authorization": f"Bearer {token}"}
