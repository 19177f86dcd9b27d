"""The document of a report: whatever the month was like, there is one."""

from hypothesis import given

from receiver.capabilities.costs.documents import ReportDocument
from receiver.core.model.memory import NodeLife
from receiver.core.model.policy import Policy
from receiver.core.model.usage import Usage
from receiver.core.money.attribution import MonthToDate, attribute
from receiver.core.report.report import Found, report
from tests.core.report.builders import AFTER, MONTH
from tests.core.report.months import months


@given(months())
def test_every_month_has_a_document_with_a_line_for_each_line_of_its_report(
    month: tuple[list[NodeLife], list[Usage], Policy],
) -> None:
    lives, usage, policy = month
    shared = attribute(lives, usage, (), MonthToDate(MONTH, AFTER, policy.billing))
    found = report(Found(lives=lives, usage=usage, workloads=(), attributed=shared), policy, MONTH, AFTER)
    assert len(ReportDocument.of(found).document()["lines"]) == len(found.lines)
