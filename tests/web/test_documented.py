"""docs/http-api.md has every request and metric that is served, and no other; the API's document explains the fields."""

import re
from pathlib import Path

from receiver.web.openapi import document
from tests.docs.pages import section, table
from tests.metrics.test_metrics import TOTALS, text_of
from tests.web.builders import Bench, a_full_store

DOCS = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text(encoding="utf-8")
# Fields whose name alone says what they are, in every document.
PLAIN = frozenset({})


def test_every_metric_is_documented_and_no_other() -> None:
    store = a_full_store()
    store.totals = TOTALS
    served = set(re.findall(r"^# TYPE (\w+)", text_of(store), flags=re.MULTILINE))
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


def test_every_field_of_the_document_is_explained() -> None:
    """By a description, its words, a document of its own, or a name that is plain everywhere."""

    def is_explained(schema: dict[str, object]) -> bool:
        return bool({"description", "enum"} & schema.keys()) or "#/components/schemas/" in str(schema)

    unexplained = {
        f"{name}.{field}"
        for name, whole in document("1")["components"]["schemas"].items()
        for field, schema in whole.get("properties", {}).items()
        if field not in PLAIN and not is_explained(schema)
    }
    assert unexplained == set()


def test_the_health_answers_fields_are_documented() -> None:
    client = Bench().client()
    for path in ("healthz", "readyz"):
        part = next(s for s in DOCS.split("\n## ") if s.startswith(f"GET /{path}"))
        assert set(client.get(f"/{path}").get_json()) <= set(re.findall(r'"(\w+)":', part))
