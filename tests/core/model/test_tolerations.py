"""Which taints a toleration covers, by the cases of Kubernetes' own tests (`TestTolerationToleratesTaint`,
`TestCompareNumericValues`), for the product and for the scheduler of the simulated world, which is written apart."""

import pytest

from receiver.core.model.devices import Toleration, tolerates
from receiver.core.model.policy import Taint
from receiver.replay.world.scheduler import untolerated

MAX, MIN = "9223372036854775807", "-9223372036854775808"


def covered(toleration: Toleration, taint: Taint) -> bool:
    """What the product says; the simulated scheduler must say the same."""
    answer = tolerates(toleration, taint)
    assert answer is (untolerated((taint,), (toleration,)) is None)
    return answer


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        (("foo", "Exists", "", "NoSchedule"), ("foo", "", "NoSchedule"), True),
        (("foo", "Exists", "", "NoSchedule"), ("foo", "bar", "NoSchedule"), True),
        (("foo", "Exists", "ignored", "NoSchedule"), ("foo", "bar", "NoSchedule"), True),
        (("", "Exists", "", "NoSchedule"), ("foo", "bar", "NoSchedule"), True),
        (("", "Exists", "", ""), ("foo", "bar", "NoExecute"), True),
        (("foo", "Exists", "", ""), ("foo", "bar", "NoExecute"), True),
        (("foo", "Exists", "", ""), ("other", "bar", "NoExecute"), False),
        (("foo", "Equal", "bar", "NoSchedule"), ("foo", "bar", "NoSchedule"), True),
        (("foo", "", "bar", "NoSchedule"), ("foo", "bar", "NoSchedule"), True),
        (("foo", "Equal", "value1", "NoSchedule"), ("foo", "value2", "NoSchedule"), False),
        (("foo", "Equal", "bar", "NoSchedule"), ("foo", "bar", "NoExecute"), False),
        (("foo", "Gte", "1", "NoSchedule"), ("foo", "1", "NoSchedule"), False),
        (("foo", "equal", "bar", "NoSchedule"), ("foo", "bar", "NoSchedule"), False),
        (("other", "Gt", "1", "NoSchedule"), ("foo", "2", "NoSchedule"), False),
        (("foo", "Gt", "1", "NoExecute"), ("foo", "2", "NoSchedule"), False),
        (("foo", "Gt", "1", ""), ("foo", "2", "NoSchedule"), True),
    ],
)
def test_a_toleration_covers_a_taint_by_key_operator_value_and_effect(
    toleration: tuple[str, str, str, str], taint: tuple[str, str, str], expected: bool
) -> None:
    key, operator, value, effect = toleration
    wants = Toleration(key=key, operator=operator, value=value, effect=effect)
    assert covered(wants, Taint(key=taint[0], value=taint[1], effect=taint[2])) is expected


@pytest.mark.parametrize(
    ("operator", "bound", "value", "expected"),
    [
        ("Gt", "950", "800", False),
        ("Gt", "750", "950", True),
        ("Lt", "800", "950", False),
        ("Lt", "950", "800", True),
        ("Gt", "950", "950", False),
        ("Lt", "100", "100", False),
        ("Gt", "950", "high", False),
        ("Gt", "-100", "-200", False),
        ("Gt", "-100", "-50", True),
        ("Lt", "-50", "-100", True),
        ("Gt", "0", "1", True),
        ("Lt", "0", "-1", True),
        ("Gt", "0", "0", False),
        ("Gt", "9223372036854775806", MAX, True),
        ("Lt", "0", MIN, True),
        ("Gt", "0", "9223372036854775808", False),
        ("Gt", "abc", "100", False),
        ("Gt", "", "100", False),
        ("Gt", "0100", "200", False),
        ("Gt", "+100", "200", False),
        ("Gt", "100.5", "200", False),
        ("Gt", "-", "100", False),
        ("Gt", "-0", "100", False),
        ("Gt", "100", "", False),
        ("Gt", "100", "0200", False),
        ("Lt", "100", "+20", False),
        ("Lt", "100", " 20 ", False),
        ("Gt", "1", "1_0", False),
        ("Gt", "1", "٣", False),
        ("Gt", "1", "3\n", False),
    ],
)
def test_numbers_are_compared_as_kubernetes_writes_them(operator: str, bound: str, value: str, expected: bool) -> None:
    toleration = Toleration(key="sla", operator=operator, value=bound)
    assert covered(toleration, Taint(key="sla", value=value, effect="NoSchedule")) is expected
