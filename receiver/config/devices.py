"""Devices of one node of a pool in the configuration file, as ResourceSlices of a DRA driver will show them.

Attributes have types, which the file does not say: ``true``, whole numbers and versions (``9.0.0``) are read as such,
and everything else as text.
"""

import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from receiver.config import values
from receiver.config.values import Section
from receiver.core.model.devices import GPU_DRIVER, Attribute, Device, NodeDevices, as_text

_VERSION = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", re.ASCII)
_NAME = r"([a-z0-9][-a-z0-9.]{0,62}/)?[A-Za-z_][A-Za-z0-9_]{0,31}"
_QUANTITY = r"\d+(\.\d+)?([KMGTPE]i|[kMGTPE]|m)?"
MOST_DEVICES = 1_000  # of one node
DeviceField = Annotated[
    str, values.matching(_NAME, "the name of an attribute or a capacity", "write it as the ResourceSlice has it")
]
Quantity = Annotated[str, values.matching(_QUANTITY, "a quantity", "write it as Kubernetes does, such as 48Gi")]
CounterName = Annotated[
    str, values.matching(r"[-a-z0-9.]{1,63}/[-a-z0-9.]{1,63}", "a counter", "write set/counter, such as gpu-0/slices")
]


class DeviceSpec(Section):
    count: values.Units = 1
    """of a node"""
    driver: values.Identifier = GPU_DRIVER
    """their DRA driver"""
    attributes: dict[DeviceField, values.Text] = Field(default_factory=dict)
    """as in the ResourceSlice"""
    capacity: dict[DeviceField, Quantity] = Field(default_factory=dict)
    """such as `memory: 48Gi`"""
    uses: dict[CounterName, values.Units] = Field(default_factory=dict)
    """what each takes of `device_counters`"""


def devices_text(specs: Sequence[DeviceSpec], counters: dict[str, int]) -> str:
    """Return the devices of *specs* as `core.model.devices.as_text`, empty for none."""
    devices = [
        Device(
            driver=spec.driver,
            name=f"{number}-{copy}",
            attributes={_full(name, spec.driver): _attribute(text) for name, text in spec.attributes.items()},
            capacity={_full(name, spec.driver): text for name, text in spec.capacity.items()},
            uses=dict(spec.uses),
        )
        for number, spec in enumerate(specs)
        for copy in range(spec.count)
    ]
    return as_text(NodeDevices(devices=tuple(devices), counters=dict(counters))) if devices else ""


def _full(name: str, driver: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _attribute(text: str) -> Attribute:
    if text in ("true", "false"):
        return "bool", text == "true"
    if re.fullmatch(r"-?\d{1,18}", text, re.ASCII):
        return "int", int(text)
    return ("version" if _VERSION.fullmatch(text) else "string"), text
