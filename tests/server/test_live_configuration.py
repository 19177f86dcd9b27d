"""Every part of the process goes by the configuration in force: requests, steps and messages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from structlog.testing import capture_logs

from receiver.adapters.messages import Outbox
from receiver.server import bootstrap
from receiver.server.bootstrap import EXTENSION, create_app, stop
from receiver.step.reconcile import step
from tests.config.builders import ENVIRONMENT, POOL, one_pool

QUIET = "kubernetes: {enabled: false}\nwarm_up: 0s\n"


class Served:
    """The whole application over a file that a test changes; Civo does not answer, and no thread runs."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "config.yaml"
        self.file.write_text(one_pool(top=QUIET))
        environ = {
            **ENVIRONMENT,
            "CIVO_API_URL": "http://127.0.0.1:9",
            "GPU_AUTOSCALER_CONFIG": str(self.file),
            "GPU_AUTOSCALER_DATABASE_URL": f"sqlite:///{folder}/store.db",
        }
        self.app: Flask = create_app(environ)
        self.running = self.app.extensions[EXTENSION]
        self.client = self.app.test_client()
        self.running.reloader.look()

    def change(self, text: str) -> None:
        """Write *text*, and let it be read."""
        self.file.write_text(text)
        self.running.reloader.look()
        self.running.reloader.look()

    def metrics(self) -> str:
        return self.client.get("/metrics").text


@pytest.fixture
def served(tmp_path: Path, own_logs: None) -> Iterator[Served]:
    found = Served(tmp_path)
    yield found
    stop(found.app)


def test_requests_are_answered_by_the_file_in_force(served: Served) -> None:
    assert served.client.get("/").status_code == 200
    served.change(f"mode: act\ncluster_name: prod\nweb: {{hosts: [gpu.example.com]}}\n{one_pool(top=QUIET)}")
    assert '"mode":"act"' in served.client.get("/healthz").text
    assert 'cluster_name="prod"' in served.metrics()
    assert served.client.get("/", headers={"Host": "gpu.example.com"}).status_code == 200
    assert served.client.get("/", headers={"Host": "other.example.com"}).status_code == 421


def test_a_pool_that_appears_or_leaves_does_so_in_pages_and_metrics(served: Served) -> None:
    served.change(one_pool(top=QUIET, pool=POOL + POOL.replace("l40s\n", "new\n").replace("5f3c", "77aa")))
    assert 'pool_name="new"' in served.metrics()
    assert "new" in served.client.get("/api/v1/pools/new").text
    served.change(one_pool(top=QUIET))
    assert 'pool_name="new"' not in served.metrics()


def test_reading_may_not_take_a_token_that_nobody_has(served: Served) -> None:
    served.change(f"web: {{reading: token}}\n{one_pool(top=QUIET)}")
    assert served.client.get("/").status_code == 200
    assert 'gpu_autoscaler_configuration_refused{part="file"} 1.0' in served.metrics()


def test_the_next_step_takes_policy_and_mode_of_the_file_in_force(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Any] = []

    def noted(sources: Any, hands: Any, policy: Any, mode: str, now: Any, additions: Any) -> Any:
        taken.append((type(hands.cloud).__name__, policy.pools[0].max_nodes, mode))
        return step(sources, hands, policy, mode, now, additions)

    monkeypatch.setattr(bootstrap, "step", noted)
    now = served.running.loop._clock.now()
    served.running.loop._step(now)
    served.change(f"mode: act\n{one_pool(top=QUIET).replace('max_nodes: 8', 'max_nodes: 3')}")
    served.running.loop._step(now)
    served.change(f"mode: observe\n{one_pool(top=QUIET)}")
    served.running.loop._step(now)
    assert taken == [("ObservedCloud", 8, "observe"), ("CivoCloud", 3, "act"), ("ObservedCloud", 8, "observe")]


def test_messages_lead_to_the_address_in_force(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses: list[str | None] = []

    def noted(outbox: Outbox, _now: object) -> int:
        addresses.append(outbox._links.public_url)
        return 0

    monkeypatch.setattr(Outbox, "deliver_due", noted)
    now = served.running.loop._clock.now()
    served.running.courier._deliver(now)
    served.change(f"public_url: https://gpu.example.com\n{one_pool(top=QUIET)}")
    served.running.courier._deliver(now)
    assert addresses == [None, "https://gpu.example.com"]


def test_who_guesses_tokens_waits_also_after_a_change(served: Served) -> None:
    def guess(number: int) -> int:
        headers = {"Authorization": f"Bearer wrong-{number}"}
        return served.client.post("/api/v1/overrides", headers=headers, json={}).status_code

    assert [guess(number) for number in range(11)] == [401] * 10 + [429]
    served.change(f"cluster_name: prod\n{one_pool(top=QUIET)}")
    assert guess(11) == 429


def test_a_destination_that_a_change_leaves_without_its_url_is_named(served: Served) -> None:
    with capture_logs() as logs:
        served.change(f"notify: {{destinations: {{pagr: {{level: failure}}}}}}\n{one_pool(top=QUIET)}")
    said = [line["detail"] for line in logs if line["event"] == "configuration"]
    assert len(said) == 1
    assert said[0].startswith("notify.destinations.pagr: has no URL")


def test_a_what_if_question_is_about_the_last_step_of_the_loop_that_leads(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask() -> Any:
        return served.client.post("/api/v1/what-if?as=changes", data="pools.l40s.max_nodes: 3")

    monkeypatch.setattr(served.running.loop, "leads", lambda: True)
    assert ask().status_code == 503
    served.change(f"mode: act\n{one_pool(top=QUIET)}")
    served.running.loop._step(served.running.loop._clock.now())
    assert ask().get_json()["changes"] == ["pools.l40s.max_nodes 8 -> 3"]
    monkeypatch.setattr(served.running.loop, "leads", lambda: False)
    assert ask().status_code == 503
