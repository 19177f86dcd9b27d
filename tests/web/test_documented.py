"""docs/http-api.md names every field and metric that is served, and no other metric."""

import re
from pathlib import Path

import pytest

from tests.metrics.test_metrics import TOTALS, text_of
from tests.web.builders import Bench, a_full_store

DOCS = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text()


def test_every_metric_is_documented_and_no_other() -> None:
    store = a_full_store()
    store.totals = TOTALS
    served = set(re.findall(r"^# TYPE (\w+)", text_of(store), flags=re.MULTILINE))
    documented = set(re.findall(r"gpu_autoscaler_\w+", DOCS))
    assert served == documented


@pytest.mark.parametrize(
    "path", ["status", "pools/l40s", "waiting", "decisions/42", "actions", "budget", "charges", "costs", "report"]
)
def test_every_field_of_the_api_is_documented(path: str) -> None:
    document = Bench(store=a_full_store()).client().get(f"/api/v1/{path}").get_json()
    fields = document[0] if isinstance(document, list) else document
    section = next(s for s in DOCS.split("\n### ") if s.startswith(f"GET /api/v1/{path.partition('/')[0]}"))
    assert set(fields) <= set(re.findall(r"`(\w+)`", section))


def test_the_health_answers_fields_are_documented() -> None:
    client = Bench().client()
    for path in ("healthz", "readyz"):
        section = next(s for s in DOCS.split("\n## ") if s.startswith(f"GET /{path}"))
        assert set(client.get(f"/{path}").get_json()) <= set(re.findall(r'"(\w+)":', section))
