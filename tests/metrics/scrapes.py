"""What a scrape of /metrics reads, as text and as samples."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from receiver.capabilities import registry as capabilities
from receiver.core.model.policy import Policy
from receiver.metrics.collector import Instruments, StoreCollector
from receiver.ports import Store
from simulator.store import MemoryStore
from tests.clocks import FixedClock
from tests.metrics.counted import a_counted_store
from tests.settings import settings_of
from tests.web.builders import NOW, a_picture, a_policy

ADDED_FAMILIES = [families for capability in capabilities.installed() for families in capability.metrics]


def a_registry(store: Store, policy: Policy | None = None, mode: str = "act") -> CollectorRegistry:
    """Return a registry as bootstrap fills it."""
    registry, settings = CollectorRegistry(), settings_of(policy or a_policy(), mode)
    registry.register(StoreCollector(store, settings, FixedClock(NOW), version="0.1.0", added=ADDED_FAMILIES))
    registry.register(Instruments())
    return registry


def scrape(store: Store, policy: Policy | None = None, mode: str = "act") -> str:
    """Return what a scrape reads."""
    return generate_latest(a_registry(store, policy, mode)).decode()


def samples_of(text: str) -> dict[str, float]:
    """Return every sample by its name and labels, as a query would write it."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f'{k}="{v}"' for k, v in sorted(sample.labels.items()))
            key = f"{sample.name}{{{labels}}}".removeprefix("gpu_autoscaler_")
            assert key not in found, f"{key} is there twice"
            found[key] = sample.value
    return found


def scraped_samples(store: MemoryStore | None = None, **more: Any) -> dict[str, float]:
    """Return the samples for *store*, one in which everything happened, with a picture that *more* changes."""
    store = store or a_counted_store()
    store.keep_snapshot(a_picture(**more), NOW - timedelta(seconds=4))
    return samples_of(scrape(store))


def samples_named(found: Mapping[str, float], name: str) -> dict[str, float]:
    """Return the samples of one metric."""
    return {key: value for key, value in found.items() if key.startswith(f"{name}{{")}
