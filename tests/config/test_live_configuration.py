"""A changed configuration file is read while the program runs, applied as a whole or not at all."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from receiver.config.live import NEEDS_RESTART, LiveConfiguration, needs_restart
from receiver.config.model import Configuration
from receiver.config.settings import load_file
from receiver.config.values import Mistake
from receiver.core.model.configuration import SETTLED, ConfigurationFile
from receiver.core.model.policy import Objective
from receiver.core.model.pool_facts import PoolAtCivo, PoolFacts
from tests.config.builders import POOL, QUIET, one_pool
from tests.core.builders import NOW

PRICES = "as_of: 2026-11-01\nsource: our contract\nsizes: {an.g1.l40s.kube.x1: {usd_per_hour: %s}}\n"


class Mounted:
    """A configuration file as the kubelet mounts it: a link through a folder that is swapped at once."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self._versions = folder, NOW, 0
        self.path = folder / "config.yaml"
        for name in ("config.yaml", "prices.yaml"):
            (folder / name).symlink_to(folder / "..data" / name)
        self.write(one_pool())
        self.live = LiveConfiguration(self.path, load_file(self.path), lambda: self.now, self._refuses)
        self.refuses: list[Mistake] = []
        self.live.look()

    def _refuses(self, _: Configuration) -> list[Mistake]:
        return self.refuses

    def write(self, text: str, prices: str = "") -> None:
        """Mount a new version of everything."""
        self._versions += 1
        version = self.folder / f"..{self._versions}"
        version.mkdir()
        (version / "config.yaml").write_text(text)
        if prices:
            (version / "prices.yaml").write_text(prices)
        new = self.folder / "..data_tmp"
        new.symlink_to(version)
        new.rename(self.folder / "..data")

    def change(self, text: str, prices: str = "") -> bool:
        """Mount a new version, and let it be seen."""
        self.write(text, prices)
        return self.look()

    def look(self) -> bool:
        """Look until a change has settled; return whether it is in force."""
        assert not self.live.look()
        return self.live.look()


@pytest.fixture
def mounted(tmp_path: Path) -> Mounted:
    return Mounted(tmp_path)


def more_nodes(most: int = 6) -> str:
    return one_pool(pool=POOL.replace("max_nodes: 8", f"max_nodes: {most}"))


def test_a_file_that_has_not_changed_changes_nothing(mounted: Mounted) -> None:
    before = mounted.live.settings
    assert not mounted.look()
    assert not mounted.change(f"{one_pool()}\n# a comment\n")
    assert mounted.live.settings is before
    assert (mounted.live.refused, mounted.live.differs, mounted.live.file.at) == (False, False, None)


def test_a_valid_file_is_in_force_from_then_on(mounted: Mounted) -> None:
    assert mounted.change(more_nodes())
    assert mounted.live.settings.policy.pools[0].max_nodes == 6
    assert mounted.live.file.changes == ("pools.l40s.max_nodes 8 -> 6",)
    assert (mounted.live.refused, mounted.live.differs) == (False, False)


@pytest.mark.parametrize("text", ["modus: act\n", one_pool()[:40], "", "pools: [", "\0"], ids=repr)
def test_a_file_with_a_mistake_changes_nothing_and_is_refused(mounted: Mounted, text: str) -> None:
    before = mounted.live.settings
    assert not mounted.change(text)
    assert mounted.live.settings is before
    assert (mounted.live.refused, mounted.live.differs) == (True, True)
    assert mounted.live.file.mistakes


def test_a_filter_of_a_destination_changes_as_any_other_key(mounted: Mounted) -> None:
    destination = "notify: {destinations: {pager: {level: failure%s}}}\n"
    assert mounted.change(one_pool() + destination % "")
    assert mounted.change(one_pool() + destination % ", pools: [l40s]")
    assert mounted.live.file.changes == ("notify.destinations.pager.pools set to l40s",)


def test_a_file_that_a_bug_keeps_from_being_read_is_refused(mounted: Mounted, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("receiver.config.live.changes", broken)
    before = mounted.live.settings
    with capture_logs() as logs:
        assert not mounted.change(more_nodes())
    assert (mounted.live.refused, mounted.live.settings is before) == (True, True)
    assert [line["event"] for line in logs] == ["configuration not read", "configuration refused"]


def test_a_file_that_is_gone_is_refused(mounted: Mounted) -> None:
    (mounted.folder / "..data").unlink()
    assert not mounted.look()
    assert "cannot read" in mounted.live.file.mistakes[0]


def test_a_refusal_is_logged_once_and_dated_from_its_beginning(mounted: Mounted) -> None:
    with capture_logs() as logs:
        mounted.change("modus: act\n")
        mounted.now += timedelta(minutes=1)
        mounted.live.look()
        mounted.change("modus: observe\n")
    assert [line["event"] for line in logs] == ["configuration refused"] * 2
    assert mounted.live.file.at == NOW


def test_a_half_written_file_is_read_again_when_it_is_complete(mounted: Mounted) -> None:
    mounted.path.unlink()
    mounted.path.write_text(more_nodes()[:-30])  # in place, as an editor does
    assert not mounted.look()
    assert mounted.live.refused
    mounted.path.write_text(more_nodes())
    assert mounted.look()
    assert mounted.live.file.mistakes == ()
    assert mounted.live.settings.policy.pools[0].max_nodes == 6


def test_a_file_that_changes_with_every_look_is_not_read(mounted: Mounted) -> None:
    for whole in (one_pool(top=""), more_nodes(5)):
        mounted.write(whole)
        assert not mounted.live.look()
    assert mounted.live.settings.policy.budget is not None
    assert mounted.live.look()
    assert mounted.live.file.changes == ("pools.l40s.max_nodes 8 -> 5",)


def test_a_refused_file_that_is_as_it_was_again_is_news_only_after_a_while(mounted: Mounted) -> None:
    mounted.change("modus: act\n")
    mounted.change(one_pool())
    assert mounted.live.file.mistakes == ()
    assert mounted.live.file.at is None
    mounted.change("modus: act\n")
    mounted.now += SETTLED
    mounted.change(one_pool())
    assert mounted.live.file.changes == ()
    assert mounted.live.file.at is not None


def test_what_only_the_environment_shows_is_refused_too(mounted: Mounted) -> None:
    mounted.refuses = [Mistake(path="web.reading", problem="is token, and no token is set")]
    assert not mounted.change(more_nodes())
    assert mounted.live.file.mistakes == ("web.reading: is token, and no token is set",)


def test_a_key_that_needs_a_restart_is_named_and_the_rest_is_in_force(mounted: Mounted) -> None:
    moved = QUIET.replace("http://prometheus:9090", "http://me:secret@prometheus:9090")
    assert mounted.change(f"tick: 5s\nobjective: wait\n{one_pool(top=moved)}")
    assert mounted.live.settings.policy.objective is Objective.WAIT
    assert mounted.live.file.restart == ("tick", "prometheus.url")
    assert set(mounted.live.file.changes) == {
        "tick needs a restart",
        "prometheus.url needs a restart",  # it may hold a password
        "objective balanced -> wait",
    }
    assert (mounted.live.refused, mounted.live.differs) == (False, True)


def test_a_key_that_is_as_at_the_start_again_needs_no_restart(mounted: Mounted) -> None:
    mounted.change(f"tick: 5s\n{one_pool()}")
    mounted.change(one_pool())
    assert mounted.live.file.restart == ()
    assert mounted.live.file.changes == ("tick as at the start",)


def test_a_prices_file_is_read_again_when_it_changes(mounted: Mounted) -> None:
    text = f"prices_file: prices.yaml\n{one_pool()}"
    mounted.change(text, PRICES % "1.10")
    assert mounted.live.settings.policy.pools[0].price_usd_per_hour == Decimal("1.10")
    mounted.change(text, PRICES % "1.05")
    assert mounted.live.file.changes == ("prices[an.g1.l40s.kube.x1].usd_per_hour 1.10 -> 1.05",)
    assert not mounted.change(text, PRICES % "a lot")
    assert mounted.live.settings.policy.pools[0].price_usd_per_hour == Decimal("1.05")


def test_a_prices_file_that_comes_after_its_configuration_is_read_when_it_comes(mounted: Mounted) -> None:
    text = f"prices_file: {mounted.folder / 'later.yaml'}\n{one_pool()}"
    assert not mounted.change(text)
    (mounted.folder / "later.yaml").write_text(PRICES % "1.10")
    assert mounted.look()


@pytest.mark.parametrize(
    "text, said",
    [
        (one_pool("windows: [{name: nights, max_nodes: 2}]"), ["pools.l40s.windows.nights added"]),
        (one_pool().replace("name: l40s", "name: big"), ["pools.big.name l40s -> big"]),
        (one_pool().replace("civo_pool_id: 5f3c", "civo_pool_id: 77aa"), ["pools.l40s removed", "pools.l40s added"]),
        (one_pool(top=QUIET.replace("5000", "7000")), ["budget.monthly_usd 5000 -> 7000"]),
        (one_pool(top=QUIET.replace("budget: {monthly_usd: 5000}\n", "")), ["budget removed"]),
        (f"cluster_name: prod\n{one_pool()}", ["cluster_name set to prod"]),
        (f"notify: {{at_most_every: 2m}}\n{one_pool()}", ["notify.at_most_every 5m -> 2m"]),
        (f"queue_wait: {{production: 5m, research: 2h}}\n{one_pool()}", ["queue_wait.production 10m -> 5m"]),
        (f"web: {{hosts: [gpu.example.com]}}\n{one_pool()}", ["web.hosts set to gpu.example.com"]),
    ],
)
def test_a_change_is_named_as_the_file_says_it(mounted: Mounted, text: str, said: list[str]) -> None:
    assert mounted.change(text)
    assert list(mounted.live.file.changes) == said


def test_pools_in_another_order_are_a_change(mounted: Mounted) -> None:
    other = POOL.replace("l40s\n", "other\n").replace("5f3c", "77aa")
    mounted.change(one_pool(pool=POOL + other))
    assert mounted.change(one_pool(pool=other + POOL))
    assert mounted.live.file.changes == ("pools in another order",)


LIVE = {
    *("cluster_name", "mode", "objective", "heartbeat_interval", "fallback", "webhook", "web", "budget", "billing"),
    *("packing", "limits", "attribution", "prices_file", "public_url", "docs_url", "notify", "unknown_after"),
    *("queue_wait", "idle_cost_usd_per_hour", "idle_shutdown", "keep_until", "patience", "overrides", "reports"),
    "pools",
    *("kubernetes.startup_taints", "kubernetes.sick_conditions"),
}


def test_every_key_is_known_to_be_live_or_to_need_a_restart() -> None:
    """A new key belongs into one of the two lists: into NEEDS_RESTART if the start alone reads it."""
    known = {key for key in Configuration.model_fields if needs_restart(key)} | LIVE
    assert {*Configuration.model_fields} - {key.partition(".")[0] for key in known} - {"kubernetes"} == set()
    kubernetes = Configuration.model_fields["kubernetes"].annotation
    assert kubernetes is not None
    assert {f"kubernetes.{key}" for key in kubernetes.model_fields} == {
        key for key in (*NEEDS_RESTART, *LIVE) if key.startswith("kubernetes.")
    }


def test_of_threads_that_look_at_once_one_reads_the_file(mounted: Mounted) -> None:
    mounted.write(more_nodes())
    mounted.live.look()
    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(lambda _: mounted.live.look(), range(8))) == [*[False] * 7, True]


class AtCivo:
    """A file that leaves its pool to Civo, read while Civo answers or does not."""

    def __init__(self, folder: Path, text: str) -> None:
        self.path, self.asked = folder / "config.yaml", 0
        self.path.write_text(text)
        self.facts: PoolFacts | None = None
        self.live = LiveConfiguration(
            self.path, load_file(self.path), lambda: NOW, facts=lambda: self.facts, needs_facts=self._ask
        )
        self.live.look()

    def _ask(self) -> None:
        self.asked += 1

    def says(self, labels: dict[str, str]) -> bool:
        """Let Civo answer, and look."""
        pool = PoolAtCivo(size="an.g1.l40s.kube.x1", labels=labels)
        self.facts = PoolFacts(pools={"5f3c": pool}, gpus={"an.g1.l40s.kube.x1": 1})
        return self.live.look()


MINIMAL = one_pool(pool="\n  - {civo_pool_id: 5f3c, max_nodes: 8}\n")


def test_the_first_answer_of_civo_puts_the_file_of_the_start_into_force_without_a_message(tmp_path: Path) -> None:
    at = AtCivo(tmp_path, MINIMAL)
    assert at.live.settings.pending
    assert at.says({"gpu": "on-demand"})
    assert [pool.name for pool in at.live.settings.policy.pools] == ["l40s"]
    assert at.live.file == ConfigurationFile()


def test_the_first_answer_is_no_message_for_a_pool_that_needed_none(tmp_path: Path) -> None:
    at = AtCivo(tmp_path, one_pool())
    assert at.says({"gpu": "on-demand"})
    assert dict(at.live.settings.policy.pools[0].labels) == {"gpu": "on-demand"}
    assert at.live.file == ConfigurationFile()


def test_a_label_that_changes_at_civo_is_told_as_a_change(tmp_path: Path) -> None:
    at = AtCivo(tmp_path, MINIMAL)
    at.says({"gpu": "on-demand"})
    assert not at.says({"gpu": "on-demand"})
    assert at.says({"gpu": "spot"})
    assert at.live.file.changes == ("pools.l40s.labels.gpu on-demand -> spot",)


def test_an_answer_without_the_pool_keeps_the_file_of_the_start_waiting_and_says_why(tmp_path: Path) -> None:
    at = AtCivo(tmp_path, MINIMAL)
    at.facts = PoolFacts(pools={"other": PoolAtCivo(size="an.g1.l40s.kube.x1")})
    assert not at.live.look()
    assert at.live.settings.pending
    assert "the cluster has no pool 5f3c" in at.live.file.mistakes[0]
    assert at.says({})
    assert not at.live.refused


def test_a_key_that_needs_a_restart_is_named_where_the_file_changed_while_it_waited_for_civo(tmp_path: Path) -> None:
    at = AtCivo(tmp_path, MINIMAL)
    at.path.write_text(MINIMAL + "tick: 7s\n")
    at.live.look()
    at.live.look()
    at.says({})
    assert at.live.file.restart == ("tick",)


def test_civo_is_asked_for_a_file_that_what_is_known_does_not_complete(tmp_path: Path) -> None:
    at = AtCivo(tmp_path, one_pool("labels: {}", "taints: []"))
    at.facts = PoolFacts()
    at.live.look()
    at.path.write_text(MINIMAL)
    at.live.look()
    at.live.look()
    assert at.live.refused
    assert at.live.asks_civo


def test_civo_is_asked_at_once_for_a_file_that_changes(tmp_path: Path) -> None:
    at = AtCivo(tmp_path, one_pool())
    before = at.asked
    at.path.write_text(MINIMAL)
    at.live.look()
    assert at.asked == before + 1
    at.live.look()
    assert at.asked == before + 2  # the reader may not have known at the first call that the file needs it
    assert at.live.file.mistakes == (
        (
            "pool 5f3c: Civo has not said its size and GPUs yet; "
            "wait for Civo, or write name, size and resources of the pool"
        ),
    )
    assert [pool.name for pool in at.live.settings.policy.pools] == ["l40s"]


def test_another_configuration_is_completed_too(tmp_path: Path) -> None:
    at = AtCivo(tmp_path, MINIMAL)
    at.says({"gpu": "on-demand"})
    [pool] = at.live.other("pools.l40s.max_nodes: 2", changes=True).policy.pools
    assert (pool.max_nodes, dict(pool.labels)) == (2, {"gpu": "on-demand"})
