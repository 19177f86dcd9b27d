"""The devices of a pool's nodes, from the file to the values that the step reads."""

from receiver.config.settings import load_text
from receiver.core.model.devices import from_text
from tests.config.builders import one_pool

SLICES = "device_counters: {gpu-0/slices: 7}"
DEVICES = """devices:
      - attributes: {type: gpu, productName: NVIDIA H100, cores: 4, ecc: true, driver: 580.95.5}
        uses: {gpu-0/slices: 7}
      - {count: 2, driver: dra.net, attributes: {example.com/rdma: "true"}, capacity: {bandwidth: 400G}}"""


def test_devices_are_read_with_types_and_the_domain_of_their_driver() -> None:
    [pool] = load_text(one_pool(DEVICES, SLICES)).policy.pools
    node = from_text(pool.devices)
    gpu, *nics = node.devices
    assert gpu.attributes == {
        "gpu.nvidia.com/type": ("string", "gpu"),
        "gpu.nvidia.com/productName": ("string", "NVIDIA H100"),
        "gpu.nvidia.com/cores": ("int", 4),
        "gpu.nvidia.com/ecc": ("bool", True),
        "gpu.nvidia.com/driver": ("version", "580.95.5"),
    }
    assert (gpu.uses, node.counters) == ({"gpu-0/slices": 7}, {"gpu-0/slices": 7})
    assert [(nic.driver, nic.attributes, nic.capacity) for nic in nics] == [
        ("dra.net", {"example.com/rdma": ("bool", True)}, {"dra.net/bandwidth": "400G"})
    ] * 2


def test_without_devices_nothing_is_known_of_them() -> None:
    [pool] = load_text(one_pool()).policy.pools
    assert pool.devices == ""
