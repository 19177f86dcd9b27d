"""docs/http-api.md has every request and metric that is served, and no other; /api/v1/openapi.json has the fields."""

import re
from pathlib import Path

from receiver.web.openapi import document
from tests.docs.pages import section, table
from tests.metrics.counted import a_counted_store
from tests.metrics.scrapes import scrape
from tests.web.builders import Bench

DOCS = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text(encoding="utf-8")


def test_every_metric_is_documented_and_no_other() -> None:
    served = set(re.findall(r"^# TYPE (\w+)", scrape(a_counted_store()), flags=re.MULTILINE))
    documented = set(re.findall(r"gpu_autoscaler_\w+", DOCS))
    assert served == documented


def test_the_table_of_requests_is_that_of_the_document() -> None:
    """Method, path, query and token of each; a reader's request also takes the operator's token and a session."""

    def token(schemes: list[dict[str, list[str]]]) -> str:
        return next(iter(schemes[0]), "none") if schemes else "none"

    told = [
        [
            f"`{method.upper()} {path}`",
            ", ".join(f"`{part['name']}`" for part in operation.get("parameters", ()) if part["in"] == "query"),
            token(operation["security"]),
        ]
        for path, requests in document("1", closed=True)["paths"].items()
        for method, operation in requests.items()
    ]
    assert sorted(row[:3] for row in table(section(DOCS, "Endpoints"))) == sorted(told)


def test_every_schema_of_the_document_says_what_it_is() -> None:
    """tests/web/test_openapi.py proves that every field that is served is in its schema."""
    schemas = document("1")["components"]["schemas"]
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []


def test_the_health_answers_fields_are_documented() -> None:
    client = Bench().client()
    for path in ("healthz", "readyz"):
        part = next(s for s in DOCS.split("\n## ") if s.startswith(f"GET /{path}"))
        assert set(client.get(f"/{path}").get_json()) <= set(re.findall(r'"(\w+)":', part))
