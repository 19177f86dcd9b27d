"""Reports as /api/v1/openapi.json describes them."""

import pytest
from jsonschema import Draft202012Validator

from tests.capabilities.costs.full_month import full_document
from tests.web.documented import a_bench, ask, holds, strict


@pytest.mark.parametrize("form", ["json", "focus", "pdf"])
def test_each_format_of_a_report_is_answered_as_told_and_another_is_refused(form: str) -> None:
    path = "/api/v1/report"
    response = ask(a_bench(), "get", path, f"{path}?format={form}", None)
    assert response.status_code == (400 if form == "pdf" else 200)
    assert response.mimetype == ("text/csv" if form == "focus" else "application/json")
    holds("get", path, response)


@pytest.mark.parametrize("under_way", [True, False])
@pytest.mark.parametrize("team", [None, "vision"])
def test_a_report_in_which_everything_has_happened_is_as_told(team: str | None, under_way: bool) -> None:
    schema = {"$ref": "#/components/schemas/Report", "components": strict()}
    Draft202012Validator(schema).validate(full_document(team, under_way))
