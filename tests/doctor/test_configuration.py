"""What file and environment say of themselves."""

from pathlib import Path
from typing import Any

import pytest

from receiver.doctor.checks import Finding
from receiver.doctor.configuration import is_placeholder, look
from tests.doctor.builders import document, installation


def found(tmp_path: Path, said: dict[str, Any] | None = None, **more: str) -> list[Finding]:
    """Return what is no pass."""
    return [f for f in look(installation(tmp_path, said, **more)) if f.verdict != "pass"]


def test_a_healthy_configuration_raises_no_alarm(tmp_path: Path) -> None:
    assert found(tmp_path) == []


def test_without_docs_url_messages_lead_to_the_servers_own_pages(tmp_path: Path) -> None:
    said = document()
    del said["docs_url"]
    assert found(tmp_path, said) == []


@pytest.mark.parametrize(
    "changes, check, words",
    [
        ({"mode": "observe"}, "configuration.mode", "changes nothing"),
        ({"docs_url": "https://gpu-docs.example/docs"}, "configuration.links", "placeholder"),
        ({"public_url": None}, "configuration.links", "public_url"),
        ({"public_url": None, "docs_url": None}, "configuration.links", "public_url"),
        ({"budget": {"monthly_usd": 5000}}, "configuration.budget_hold", "budget.hold is empty"),
    ],
)
def test_what_is_odd_in_the_file_is_told(tmp_path: Path, changes: dict[str, Any], check: str, words: str) -> None:
    said = {key: value for key, value in document(**changes).items() if value is not None}
    (finding,) = found(tmp_path, said)
    assert (finding.check, finding.verdict) == (check, "warn")
    assert words in finding.said
    assert finding.remedy


def test_the_objective_is_named_with_the_command_that_compares_all(tmp_path: Path) -> None:
    findings = {f.check: f for f in look(installation(tmp_path, document(objective="wait")))}
    assert "objective is wait; `gpu-autoscaler replay " in findings["configuration.objective"].said
    assert "--compare objectives`" in findings["configuration.objective"].said


def test_no_budget_is_told_once_and_has_no_hold(tmp_path: Path) -> None:
    said = document()
    del said["budget"]
    assert [(f.check, f.verdict) for f in found(tmp_path, said)] == [
        ("configuration.odd", "warn"),
        ("configuration.budget_hold", "skip"),
    ]


def test_a_short_token_is_named_and_told_once(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, GPU_AUTOSCALER_WEBHOOK_TOKEN="short")
    assert finding.check == "configuration.tokens"
    assert "GPU_AUTOSCALER_WEBHOOK_TOKEN" in finding.said
    assert "openssl" in finding.remedy


def test_without_an_operators_token_nobody_can_override(tmp_path: Path) -> None:
    (finding,) = found(tmp_path, GPU_AUTOSCALER_OPERATOR_TOKEN="")
    assert "overrides and approvals are impossible" in finding.said


def test_hosts_that_are_kept_free_for_examples_are_placeholders() -> None:
    assert is_placeholder("https://gpu-docs.example/docs")
    assert is_placeholder("http://www.example.com:80/x")
    assert not is_placeholder("https://examples.acme.net/docs")
