"""`explain decision ID --bundle`, `replay --decision FILE`: one file without names that decides the same anywhere."""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from receiver.adapters.store.decisions import FORMAT, decompressed, grounds_values
from receiver.capabilities import registry
from receiver.capabilities.bundles.bundle import NotFaithfulError, bundle
from receiver.capabilities.bundles.comparison import compared, said
from receiver.capabilities.bundles.repetition import made_again, read
from receiver.core.model.charges import Charged, Comparison
from receiver.core.model.devices import (
    CLAIMS,
    COUNTER,
    Claim,
    Constraint,
    DeviceRequest,
    claim_name,
    kind_name,
    question_id,
)
from receiver.core.model.model import Facts
from receiver.core.model.pods import Requirement, Toleration
from receiver.core.model.policy import Budget, KeepOut, Policy, Taint
from receiver.core.model.signals import SignalAction
from receiver.core.model.windows import Window
from receiver.core.scaling.bounds import topic_of
from receiver.ports import Grounds, GroundsKept
from simulator.store import MemoryStore
from tests.adapters.store.earlier_formats import without_parts
from tests.adapters.wire import unused_url
from tests.cli.asked import ask, serving
from tests.cli.renamed import present
from tests.core.builders import (
    HOUR,
    MINUTE,
    NOW,
    PARTS,
    a_busy_node,
    a_due_node,
    a_node,
    a_pod,
    a_policy,
    a_pool,
    a_signal,
    a_state,
    an_offer,
    an_override,
    facts,
)
from tests.given import lives
from tests.given.life import a_job
from tests.given.life import a_policy as a_living_policy
from tests.given.requests import booking_of, buffer_of, candidate_of
from tests.web.builders import Bench


@pytest.fixture
def store() -> MemoryStore:
    """A store in which a step decided to buy two nodes."""
    found = MemoryStore()
    lives.waiting(found, a_job("secret-llm"), a_job("other-llm")).step()
    return found


@pytest.fixture
def url(store: MemoryStore) -> Iterator[str]:
    with serving(Bench(store=store, policy=a_living_policy()).parts()) as address:
        yield address


def growth(store: MemoryStore) -> str:
    return str(next(d.id for d in store.decisions() if d.decision.target > d.decision.present))


def test_a_bundle_replays_to_the_same_decision_in_another_process(url: str, store: MemoryStore, tmp_path: Path) -> None:
    file = tmp_path / "decision.json"
    done = ask(url, "explain", "decision", growth(store), "--bundle", str(file), at=NOW)
    assert done.exit_code == 0, done.stderr
    command = [sys.executable, "-m", "receiver.cli.main", "replay", "--decision", str(file), "--json"]
    again = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    assert (again["same"], again["differs"]) == (True, {})
    assert (again["then"]["from"], again["now"]["to"]) == (0, 2)
    assert not [name for name in ("secret", "other-llm", "l40s-id", '"vision"', '"l40s"') if name in file.read_text()]


def test_the_former_option_works_and_names_the_present_one(url: str, store: MemoryStore, tmp_path: Path) -> None:
    file = tmp_path / "decision.json"
    ask(url, "explain", "decision", growth(store), "--bundle", str(file), at=NOW)
    done = ask(unused_url(), "replay", "--bundle", str(file), at=NOW)
    assert (done.exit_code, present(done, "replay --bundle")) == (0, "replay --decision FILE")


def test_it_can_be_combined_with_json_only(url: str, store: MemoryStore, tmp_path: Path) -> None:
    file = tmp_path / "decision.json"
    ask(url, "explain", "decision", growth(store), "--bundle", str(file), at=NOW)
    assert ask(unused_url(), "replay", "--decision", str(file), at=NOW).exit_code == 0
    for other in (("--config", "c.yaml"), ("--billing", "second")):
        refused = ask(unused_url(), "replay", "--decision", str(file), *other, at=NOW)
        assert (refused.exit_code, "can be combined with --json only" in refused.stderr) == (2, True)


@pytest.mark.parametrize("text", ["", "[]", '{"bundle": 1}', '{"bundle": 99, "decision": {}}'])
def test_a_file_that_is_no_bundle_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    assert ask(unused_url(), "replay", "--decision", str(file), at=NOW).exit_code == 2


@pytest.mark.parametrize("change", [{"decision": {}}, {"decision": []}, {"format": "x"}, {"facts": {}}])
def test_a_damaged_bundle_is_refused_and_not_called_different(tmp_path: Path, change: dict[str, Any]) -> None:
    kept = kept_of(*WORLDS["nodes that go by name"])
    file = tmp_path / "x.json"
    file.write_text(json.dumps({**bundle(decided(kept, "zebra-id"), kept, ADDITIONS), **change}))
    assert ask(unused_url(), "replay", "--decision", str(file), at=NOW).exit_code == 2


def test_a_bundle_that_cannot_be_written_says_so(url: str, store: MemoryStore, tmp_path: Path) -> None:
    done = ask(url, "explain", "decision", growth(store), "--bundle", str(tmp_path / "no" / "x.json"), at=NOW)
    assert (done.exit_code, "cannot write" in done.stderr) == (2, True)


A_TAINT = Taint(key="acme.example/team", value="walrus")
POOLS = (
    a_pool("zebra", labels={"acme.example/zone": "north"}, taints=(A_TAINT,), max_nodes=3),
    a_pool("apple", price_usd_per_hour=Decimal("2.58"), size="an.g1.a100.kube.x1"),
)
NIGHT = Window(name="night of the launch", max_nodes=1, evict_after=timedelta(minutes=5))
BUDGET = Budget(
    monthly_usd=Decimal(10),
    teams={"walrus": Decimal(100), "audio-lab": Decimal(50)},
    keep_out=KeepOut(namespaces=("acme-ml",)),
)
CLAIMED = claim_name(
    [
        Claim(
            key="acme-ml/otter",
            requests=((DeviceRequest(name="orca", device_class="acme", selectors=("any",), count=2),),),
            constraints=(Constraint(requests=(), attribute="acme.example/root"),),
        )
    ]
)
DEVICES = {
    CLAIMS: 2,
    f"{COUNTER}hippo-0/orca/memory": 2,
    kind_name(
        [question_id(("any",))],
        [],
        {"acme.example/root": ("string", "north pole")},
        [],
        {f"{COUNTER}hippo-0/orca/memory": 1, CLAIMS: 1},
        2,
    ): 2,
}
ADDITIONS = registry.step_additions()
WORLDS: dict[str, tuple[Facts, Policy]] = {
    "labels, taints, affinity and a gang": (
        facts(
            a_state(a_busy_node("hippo-1"), a_node("hippo-0"), pool="zebra-id"),
            a_state(a_due_node("lion"), pool="apple-id"),
            waiting=(
                a_pod("otter", tolerations=(Toleration(key="acme.example/team", value="walrus"),), namespace="acme-ml"),
                a_pod("north", affinity=((Requirement(key="acme.example/zone", operator="In", values=("north",)),),)),
                a_pod("gang-1", gang="acme-ml/squad", namespace="acme-ml", owner="Job/squad"),
                a_pod("gang-0", gang="acme-ml/squad", namespace="acme-ml", owner="Job/squad"),
                a_pod("nowhere", 3, scheduler_says="0/3 nodes: Insufficient gpus for acme"),
            ),
        ),
        a_policy(*POOLS),
    ),
    "budgets of teams, an override and an alert": (
        facts(
            a_state(a_due_node("hippo-1"), a_due_node("hippo-0"), pool="zebra-id"),
            a_state(pool="apple-id"),
            waiting=(a_pod("one", labels={"team": "walrus"}), a_pod("two", labels={"team": "audio-lab"})),
            overrides=(an_override("floor", 2, pool="zebra-id", until=NOW + HOUR, who="zoë", why="launch of Orca"),),
            signals=(a_signal(SignalAction.SCALE_UP, "zebra-id"),),
        ),
        a_policy(*POOLS, budget=BUDGET),
    ),
    "claims of devices": (
        facts(
            a_state(pool="zebra-id"),
            a_state(
                a_node("hippo-0", devices=DEVICES),
                pool="apple-id",
                devices=DEVICES,
                offer=an_offer(POOLS[1], devices='[[["gpu.acme.example","orca","gpu-0"]],{}]'),
            ),
            waiting=tuple(a_pod(f"otter-{n}", requests={CLAIMED: 2}, claims=("2 of acme",)) for n in range(2)),
        ),
        a_policy(*POOLS),
    ),
    "requests for room": (
        facts(
            a_state(a_due_node("hippo-1"), pool="zebra-id"),
            a_state(pool="apple-id"),
            requests=(
                buffer_of("acme-ml/otter", a_pod("orca", namespace="acme-ml"), 2),
                candidate_of("acme-ml/squad", [a_pod("squad-0", namespace="acme-ml")], rejects=True),
                booking_of("acme-ml/launch", provisioned_at=NOW - MINUTE, valid_for=2 * HOUR),
            ),
        ),
        a_policy(*POOLS),
    ),
    "two reasons of one rule": (
        facts(
            a_state(a_due_node("hippo-1"), pool="zebra-id"),
            a_state(pool="apple-id"),
            overrides=(
                an_override("ceiling", 1, pool="zebra-id", who="zoë"),
                an_override("snooze", pool="zebra-id", who="zoë"),
            ),
        ),
        a_policy(*POOLS),
    ),
    "an eviction that was announced": (
        facts(
            a_state(a_busy_node("hippo-1"), a_busy_node("hippo-0"), pool="zebra-id"),
            a_state(pool="apple-id"),
            told_to_go={topic_of(NIGHT, POOLS[0]): NOW - HOUR},
        ),
        a_policy(replace(POOLS[0], windows=(NIGHT,)), POOLS[1]),
    ),
    "nodes that go by name": (
        facts(
            a_state(
                a_due_node("hippo-1"), a_due_node("hippo-0"), a_due_node("hippo-2", protected=True), pool="zebra-id"
            ),
            a_state(a_due_node("lion", kept_by=("pod acme-ml/db has no controller",)), pool="apple-id"),
        ),
        a_policy(*POOLS),
    ),
}
NAMES = [
    "zebra",
    "apple",
    "hippo",
    "lion",
    "acme",
    "otter",
    "north",
    "squad",
    "nowhere",
    "walrus",
    "audio",
    "zoë",
    "orca",
    "launch",
    "gang-1",
    "on-hippo",
    "uid-",
    "ml/",
    "controller",
]


def kept_of(found: Facts, policy: Policy) -> dict[str, Any]:
    bodies = grounds_values(Grounds(facts=found, policy=policy))
    return {"format": FORMAT, **{name: decompressed(body) for name, body in bodies.items()}}


def decided(kept: dict[str, Any], pool: str) -> dict[str, Any]:
    told = {"id": 7, "pool": pool, "pool_name": pool.removesuffix("-id"), "at": "2026-11-20T12:00:00Z", "mode": "act"}
    return {**told, "version": "1", **said(made_again(read(kept), pool, ADDITIONS))}


@pytest.mark.parametrize("pool", ["zebra-id", "apple-id"])
@pytest.mark.parametrize("world", WORLDS)
def test_no_name_survives_and_the_decision_stays_the_same(world: str, pool: str) -> None:
    kept = kept_of(*WORLDS[world])
    then = decided(kept, pool)
    found = bundle(then, kept, ADDITIONS)
    text = json.dumps(found, ensure_ascii=False).lower()
    assert [name for name in NAMES if name in text] == []
    again = said(made_again(read(found), found["decision"]["pool"], ADDITIONS))
    assert compared(found["decision"], again) == {}
    assert (again["from"], again["to"]) == (then["from"], then["to"])
    assert [r["rule"] for r in again["reasons"]] == [r["rule"] for r in then["reasons"]]


def test_a_window_announced_an_eviction_as_before() -> None:
    kept = kept_of(*WORLDS["an eviction that was announced"])
    made_from = read(bundle(decided(kept, "zebra-id"), kept, ADDITIONS))
    [window] = made_from.policy.pools[0].windows
    assert made_from.facts.earlier.announced == {topic_of(window, made_from.policy.pools[0]): NOW - HOUR}


def test_what_civo_charged_is_left_out() -> None:
    charged = Charged(month="2026-11", asked_at=NOW, answered_at=NOW)
    found = facts(a_state(pool="zebra-id"), charges=Comparison(charged=charged))
    kept = kept_of(found, a_policy(*POOLS[:1]))
    assert read(kept).facts.spend.charges is not None
    assert read(bundle(decided(kept, "zebra-id"), kept, ADDITIONS)).facts.spend.charges is None


@pytest.mark.parametrize("world", WORLDS)
def test_one_of_inputs_that_an_earlier_version_stored_is_the_same(world: str) -> None:
    kept = kept_of(*WORLDS[world])
    then = decided(kept, "zebra-id")
    expected = bundle(then, kept, ADDITIONS)
    earlier = without_parts(GroundsKept(**copy.deepcopy(kept)), 2, *PARTS)
    same = {"format": earlier.format, "facts": earlier.facts, "policy": earlier.policy}
    assert bundle(then, same, ADDITIONS) == expected


def test_one_that_names_decide_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_of(*WORLDS["nodes that go by name"])
    monkeypatch.setattr(
        "receiver.capabilities.bundles.bundle.made_again", lambda *inputs: _by_name(made_again(*inputs))
    )
    with pytest.raises(NotFaithfulError):
        bundle(decided(kept, "zebra-id"), kept, ADDITIONS)


def _by_name(decision: Any) -> Any:
    return replace(decision, target=decision.target + ("zebra" in decision.pool))


def test_a_label_that_is_called_like_a_time_zone_is_replaced_too() -> None:
    labels = {"location": "acme-basement", "timezone": "Acme/Orca"}
    found = facts(a_state(pool="zebra-id"), waiting=(a_pod("one", labels=labels),))
    night = replace(NIGHT, location="Europe/Berlin")
    kept = kept_of(found, a_policy(replace(POOLS[0], windows=(night,))))
    text = json.dumps(bundle(decided(kept, "zebra-id"), kept, ADDITIONS))
    assert not [name for name in ("basement", "Orca") if name in text]
    assert "Europe/Berlin" in text
