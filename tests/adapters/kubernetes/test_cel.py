"""Selectors of devices, as Kubernetes' scheduler evaluates them."""

import subprocess
import sys
from itertools import pairwise

import pytest

from receiver.adapters.kubernetes.cel import (
    BUDGET_SECONDS,
    REFILLED_AFTER_SECONDS,
    Selectors,
    compare,
    quantity,
    version,
)
from receiver.core.model.devices import Device

DOMAIN = "gpu.nvidia.com"
L40S = Device(
    driver=DOMAIN,
    name="gpu-0",
    attributes={
        f"{DOMAIN}/type": ("string", "gpu"),
        f"{DOMAIN}/productName": ("string", "NVIDIA L40S"),
        f"{DOMAIN}/driverVersion": ("version", "580.95.5"),
        f"{DOMAIN}/numaNode": ("int", 1),
        f"{DOMAIN}/ecc": ("bool", True),
        f"{DOMAIN}/links": ("list", ""),
        "resource.kubernetes.io/pcieRoot": ("string", "pci0000:01"),
    },
    capacity={f"{DOMAIN}/memory": "48Gi"},
)
GPU, MEMORY = f'device.attributes["{DOMAIN}"]', f'device.capacity["{DOMAIN}"].memory'


@pytest.mark.parametrize(
    ("expression", "answer"),
    [
        (f'device.driver == "{DOMAIN}"', True),
        (f"{GPU}.type == 'gpu' && {GPU}.productName.lowerAscii().contains('l40s')", True),
        (f'{GPU}["type"] in ["mig", "vfio"]', False),
        (f"{GPU}.numaNode < 1 || {GPU}.ecc", True),
        ('device.attributes["resource.kubernetes.io"].pcieRoot.startsWith("pci")', True),
        (f"{MEMORY}.compareTo(quantity('40Gi')) >= 0", True),
        (f"{MEMORY}.isGreaterThan(quantity('48Gi'))", False),
        (f"{MEMORY} == quantity('49152Mi')", True),
        (f"{MEMORY}.sub(quantity('47Gi')).isLessThan(quantity('2Gi'))", True),
        (f"{MEMORY}.asInteger() == 51539607552", True),
        (f"{GPU}.driverVersion.isGreaterThan(semver('570.0.0'))", True),
        (f"{GPU}.driverVersion.major() == 580 && {GPU}.driverVersion.minor() == 95", True),
        ("isSemver('1.2') || isQuantity('a lot')", False),
        (f"{GPU}.exists(name, name == 'ecc')", None),  # it reads a list
        (f"cel.bind(gpu, {GPU}, gpu.ecc && gpu.numaNode == 1)", True),
        (f"{GPU}.?nvlink.orValue(false)", False),
        (f"has({GPU}.nvlink)", False),
        ("device.allowMultipleAllocations", False),
        # an unknown domain is an empty map, an unknown attribute an error
        ('has(device.attributes["dra.net"].rdma)', False),
        ('device.attributes["dra.net"].?rdma.orValue(true)', True),
        ('device.attributes["dra.net"].rdma', None),
        (f"{GPU}.nvlink == true", None),
        (f"true || {GPU}.nvlink == true", True),
        (f"{GPU}.links == 'a'", None),
        # what is no question with yes or no, or no CEL for devices
        ("device.driver", None),
        ("node.name == 'a'", None),
        ("device.driver ==", None),
        ("device.driver.unknown()", None),
        (f"{GPU}.type.isGreaterThan(semver('1.0.0'))", None),
        (f"{GPU}.driverVersion.isLessThan(quantity('1'))", None),
        ("'abc'.replace('b', 'x') == 'axc'", None),
    ],
)
def test_an_expression_is_judged_as_upstream(expression: str, answer: bool | None) -> None:
    assert Selectors()(expression, L40S) is answer


@pytest.mark.parametrize(
    "expression",
    [
        f"device.driver == '{'x' * 11_000}'",
        "(" * 5_000 + "true" + ")" * 5_000,
        "[" * 500 + "]" * 500 + " == 1",
        "cel.bind(a, 'x' + 'x', " * 30 + "true" + ")" * 30,
        f"cel.bind(a, '{'x' * 9_000}' + '', " * 8 + "true" + ")" * 8,
        f"[{'1,' * 1_000}1].map(x, [x, x]).size() == 2",
        f"[{'1,' * 100}1].all(x, [{'1,' * 100}1].all(y, [1, 1].all(z, x == y)))",
    ],
    ids=["long", "deep", "lists", "growing", "growing texts", "long lists", "loops"],
)
def test_an_expression_that_would_cost_too_much_is_not_judged(expression: str) -> None:
    assert Selectors()(expression, L40S) is None


def test_versions_are_ordered_as_semantic_versions() -> None:
    said = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0"]
    for before, after in pairwise(said):
        assert compare(version(before), version(after)) == -1
    assert compare(version("10.0.0"), version("9.0.0")) == 1
    assert compare(quantity("1Gi"), quantity("1073741824")) == 0
    with pytest.raises(ValueError):
        version("1.0")


class Seconds:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_judging_takes_no_more_than_its_time_and_goes_on_later() -> None:
    seconds = Seconds()
    judge = Selectors(seconds)
    judged = judge._judged

    def slow(expression: str, device: Device) -> bool | None:
        seconds.now += BUDGET_SECONDS + 1
        return judged(expression, device)

    judge._judged = slow  # type: ignore[method-assign]
    first, second = "device.driver == 'a'", f"device.driver == '{DOMAIN}'"
    assert judge(first, L40S) is False
    assert judge(second, L40S) is None
    assert judge(first, L40S) is False  # it was judged
    seconds.now += REFILLED_AFTER_SECONDS
    assert judge(second, L40S) is True


def test_devices_that_an_expression_cannot_tell_apart_are_judged_once() -> None:
    judge = Selectors()
    expression = f"{GPU}.type == 'gpu'"
    for n in range(3):
        other = {**L40S.attributes, f"{DOMAIN}/uuid": ("string", f"GPU-{n}")}
        assert judge(expression, Device(driver=DOMAIN, name=f"gpu-{n}", attributes=other))
    mig = Device(driver=DOMAIN, attributes={f"{DOMAIN}/type": ("string", "mig")})
    assert judge(expression, mig) is False
    assert len(judge._answers) == 2


def test_the_library_is_not_loaded_before_a_selector_is_judged() -> None:
    """It holds 17 MB: clusters without claims do not pay for it."""
    code = "import sys; from receiver.adapters.kubernetes import cel, cluster; cel.Selectors()"
    code += "; print('cel_expr_python' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
