"""What is told of nodes under repair."""

from receiver.core.notices.notice import Severity
from tests.capabilities.repair.messages import CASES


def test_a_sick_node_on_which_work_runs_wakes_a_person_although_it_is_replaced() -> None:
    assert CASES["sick_under_repair"]().severity is Severity.FAILURE
