"""Stories of pods that never start, for reasons that only the scheduler knows, and of those that start late."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from receiver.core.model.pods import Pod, PodPhase
from receiver.core.notices.notice import Notice
from receiver.ports import Did, Receipt, Store, TryLater
from tests.core.builders import DAY, HOUR, MINUTE, a_pool, with_fields
from tests.expect import bought, living, paid_hours, titles
from tests.given import lives
from tests.given.life import BIG_SIZE, GPU, SIZE, Life, Wrapped

pytestmark = pytest.mark.chores(False)

MISSING = '0/3 nodes are available: persistentvolumeclaim "data" not found.'
NO_GPU = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
OBSTACLES = {
    "a claim that is not bound": "0/3 nodes are available: 3 pod has unbound immediate PersistentVolumeClaims.",
    "too many volumes": "0/3 nodes are available: 1 node(s) exceed max volume count, 2 Insufficient nvidia.com/gpu.",
    "a network card": "0/3 nodes are available: 1 Insufficient rdma/hca, 2 Insufficient nvidia.com/gpu.",
    "another scheduler": "3/3 tasks in gang unschedulable: pod group is not ready, 3 Pending.",
    "no word": "",
}
CARD, PORT = OBSTACLES["a network card"], "0/3 nodes are available: 1 node(s) didn't have free ports, 2 others."


def pod(life: Life, name: str = "train-0", **changes: Any) -> Pod:
    given: dict[str, Any] = {
        "namespace": "ml",
        "name": name,
        "uid": f"uid-{name}",
        "requests": {GPU: 1},
        "phase": PodPhase.WAITING,
        "created_at": life.now,
        "owner": "Job/train",
        "owner_uid": "job-1",
        "scheduler_says": MISSING,
    }
    return Pod(**{**given, **changes})


@dataclass
class Pods:
    """Pods that no scheduler of the world knows: the test is their scheduler."""

    life: Life
    all: dict[str, Pod] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)  # messages of the Events on them

    def __post_init__(self) -> None:
        look = self.life.cluster.look

        def with_pods() -> Any:
            found = look()
            return replace(found, pods=(*found.pods, *self.all.values()))

        def record_event(pod: Pod, *, reason: str, message: str) -> Receipt:
            self.events.append(message)
            return Receipt(did=Did.DONE, sentence=f"{reason} on {pod.key}")

        wrapped = Wrapped(self.life.cluster, look=with_pods, record_event=record_event)
        self.life.cluster = wrapped  # type: ignore[assignment]

    def come(self, *pods: Pod) -> None:
        self.all |= {pod.name: pod for pod in pods}

    def say(self, words: str) -> None:
        self.all = {name: replace(pod, scheduler_says=words) for name, pod in self.all.items()}

    def bind(self, name: str = "train-0") -> bool:
        """Bind the pod to a usable node without any; False while there is none."""
        busy = {pod.node for pod in self.all.values()}
        free = [n for n in self.life.steps[-1].facts.pools[0].nodes if n.allocatable and n.name not in busy]
        for node in free[:1]:
            now = self.life.now
            bound = with_fields(self.all[name], phase=PodPhase.RUNNING, node=node.name, bound_at=now, running_since=now)
            self.all[name] = bound
        return bool(free)


def begin(store: Store, *pods: Callable[[Life], Pod], gpus: int = 1) -> tuple[Life, Pods]:
    size = SIZE if gpus == 1 else BIG_SIZE
    life = lives.at_zero(store, a_pool(size=size, resources={GPU: gpus}), rest=14 * MINUTE)
    scheduled = Pods(life)
    scheduled.come(*(make(life) for make in pods or (pod,)))
    return life, scheduled


def hours(life: Life) -> int:
    return sum(paid_hours(vm, life.now) for vm in life.world.lives)


@pytest.mark.parametrize("words", [pytest.param(OBSTACLES[name], id=name) for name in OBSTACLES])
def test_a_pod_that_never_starts_costs_one_paid_hour_on_its_first_day(store: Store, words: str) -> None:
    life, _ = begin(store, lambda life: pod(life, scheduler_says=words))
    life.run(DAY, tick=MINUTE)
    assert (bought(life), hours(life), living(life)) == (1, 1, [])


def test_a_missing_claim_costs_one_paid_hour_in_two_days(store: Store) -> None:
    life, _ = begin(store)
    life.run(2 * DAY, tick=4 * MINUTE)
    assert (bought(life), hours(life)) == (1, 1)


def test_what_the_scheduler_counts_by_nodes_costs_an_hour_in_each_longer_wait(store: Store) -> None:
    life, _ = begin(store, lambda life: pod(life, scheduler_says=CARD))
    life.run(4 * DAY, tick=4 * MINUTE)
    assert (bought(life), hours(life)) == (3, 3)  # on the first, second and fourth day


def messages(life: Life, lasts: timedelta) -> list[Notice]:
    """What is delivered about the pod meanwhile, as a courier does it."""
    delivered: list[Notice] = []

    def deliver() -> None:
        for waiting in life.store.notices_due(life.now, limit=100):
            delivered.append(waiting.notice)
            life.store.notice_sent(waiting.id, life.now)

    life.run(lasts, tick=MINUTE, each=deliver)
    return [notice for notice in delivered if "train-0 is pending" in notice.title]


@pytest.mark.chores(True)
def test_it_is_told_once_with_the_words_of_the_scheduler_and_the_sum(store: Store) -> None:
    life, _ = begin(store)
    [notice] = messages(life, 6 * HOUR)
    assert notice.body.startswith('Why: the scheduler says: 0/3 nodes are available: persistentvolumeclaim "data" not')
    assert "Cost: 1 node-hour, $1.29 spent on nodes that it did not use." in notice.body
    assert "PreferNoSchedule" not in notice.body


@pytest.mark.chores(True)
def test_it_is_told_again_with_each_further_try(store: Store) -> None:
    life, _ = begin(store, lambda life: pod(life, scheduler_says=CARD))
    first, second = messages(life, DAY + HOUR)
    assert "1 node-hour, $1.29 spent" in first.body
    assert "2 node-hours, $2.58 spent" in second.body


@pytest.mark.chores(True)
def test_its_pod_is_told_by_an_event(store: Store) -> None:
    life, scheduled = begin(store)
    life.run(HOUR, tick=MINUTE)
    assert sum("the scheduler says: 0/3 nodes" in message for message in scheduled.events) == 1


@pytest.mark.database("what outlives a process is in it")
def test_a_restart_forgets_no_refusal(store: Store) -> None:
    life, scheduled = begin(store)
    life.run(30 * MINUTE, tick=MINUTE)
    for _ in range(4):
        life = lives.restarted(life, store, rest=14 * MINUTE)
        scheduled = Pods(life, all=scheduled.all)
        life.run(HOUR, tick=MINUTE)
    assert bought(life) == 1


def test_pods_that_are_created_again_buy_no_other_node(store: Store) -> None:
    life, scheduled = begin(store)
    for number in range(1, 12):
        life.run(HOUR, tick=MINUTE)
        scheduled.all.clear()
        scheduled.come(pod(life, f"train-{number}"))
    assert bought(life) == 1


def test_pods_that_are_created_again_every_minute_keep_no_node(store: Store) -> None:
    life, scheduled = begin(store)
    for number in range(120):
        life.run(MINUTE, tick=MINUTE)
        scheduled.all.clear()
        scheduled.come(pod(life, f"train-{number}"))
    assert (bought(life), living(life)) == (1, [])


def test_eight_pods_of_one_job_cost_eight_hours_and_no_more(store: Store) -> None:
    life, _ = begin(store, *(lambda life, n=n: pod(life, f"train-{n}") for n in range(8)))
    life.run(DAY, tick=MINUTE)
    assert (bought(life), hours(life)) == (8, 8)


def test_a_gang_that_never_starts_costs_an_hour_of_its_nodes(store: Store) -> None:
    ranks = (lambda life, n=n: pod(life, f"rank-{n}", gang="ml/train", gang_min=2) for n in range(2))
    life, _ = begin(store, *ranks)
    life.run(DAY, tick=MINUTE)
    assert (bought(life), hours(life)) == (2, 2)


def test_a_pod_whose_claim_is_created_while_the_node_stands_starts_there(store: Store) -> None:
    life, scheduled = begin(store)
    life.run(30 * MINUTE, tick=MINUTE)
    assert scheduled.bind()
    life.run(6 * HOUR, tick=MINUTE)
    assert (bought(life), len(living(life))) == (1, 1)
    assert life.steps[-1].facts.other_work.refusals == ()


def test_a_pod_whose_claim_is_created_later_gets_a_node_at_once(store: Store) -> None:
    life, scheduled = begin(store)
    life.run(3 * HOUR, tick=MINUTE)
    assert living(life) == []
    scheduled.say(NO_GPU)
    life.run(10 * MINUTE)
    assert len(living(life)) == 1
    assert scheduled.bind()
    life.run(2 * HOUR, tick=MINUTE)
    assert len(living(life)) == 1


def test_other_work_starts_on_the_node_that_was_bought_for_it(store: Store) -> None:
    life, scheduled = begin(store)
    life.run(20 * MINUTE, tick=MINUTE)
    scheduled.come(pod(life, "other", owner="Job/other", owner_uid="job-2", scheduler_says=NO_GPU))
    life.run(MINUTE)
    assert scheduled.bind("other")
    life.run(3 * HOUR, tick=MINUTE)
    assert (bought(life), len(living(life))) == (1, 1)


def test_replicas_that_share_a_port_get_a_node_each(store: Store) -> None:
    """They fit one node by all that we read, and the scheduler puts one on each."""
    makes = (lambda life, n=n: pod(life, f"serve-{n}", scheduler_says=PORT) for n in range(3))
    life, scheduled = begin(store, *makes, gpus=8)

    def schedule() -> None:
        for name in [name for name, each in scheduled.all.items() if each.node is None] if life.steps else ():
            scheduled.bind(name)

    life.run(90 * MINUTE, each=schedule)
    assert len({each.node for each in scheduled.all.values() if each.node}) == 3
    assert bought(life) == 3


def test_a_silence_of_kubernetes_is_no_word_of_the_scheduler(store: Store) -> None:
    life, _ = begin(store)
    life.run(8 * MINUTE, tick=MINUTE)
    look = life.cluster.look

    def silent() -> Any:
        raise TryLater("no answer", code="timeout")

    life.cluster.look = silent  # type: ignore[method-assign]
    life.run(20 * MINUTE, tick=MINUTE)
    life.cluster.look = look  # type: ignore[method-assign]
    life.run(MINUTE)
    assert all(each.refused_at is None for each in life.steps[-1].facts.other_work.refusals)


@pytest.mark.chores(True)
def test_a_pod_that_starts_within_minutes_leaves_no_trace(store: Store) -> None:
    life, scheduled = begin(store)
    life.run(5 * MINUTE, each=lambda: life.steps and scheduled.all["train-0"].node is None and scheduled.bind())
    assert life.steps[-1].facts.other_work.refusals == ()
    assert titles(life, "is pending") == []
