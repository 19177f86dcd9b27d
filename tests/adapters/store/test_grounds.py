"""What decisions were made from: kept with them, once, read by later versions, and forgotten with them."""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from pydantic import TypeAdapter
from sqlalchemy import func, select

from receiver.adapters.store import SqlStore
from receiver.adapters.store import decisions as kept_as
from receiver.adapters.store.schema import grounds
from receiver.core.explain.evidence import with_grounds
from receiver.core.model.model import Facts, Node
from receiver.core.model.policy import Policy
from receiver.core.scaling.assign import assign
from receiver.core.scaling.decide import decide_all
from receiver.ports import Grounds, GroundsKept, WontWork
from tests.adapters.store.any_value import any_value
from tests.adapters.store.builders import after, decision
from tests.adapters.store.earlier_formats import objects, with_types_of_requests, without_parts
from tests.core.builders import NOW, PARTS, a_pod, with_fields
from tests.core.worlds import LAWS, World, worlds
from tests.given.requests import a_buffer, booking_of, buffer_of, candidate_of

NAMES = Path(__file__).with_name("stored_names.json")  # of the inputs of decisions, as first written


def any_grounds(seed: int) -> Grounds:
    """Facts and a policy with anything in every field."""
    dice = Random(seed)
    return Grounds(facts=any_value(Facts, dice), policy=any_value(Policy, dice))


def any_earlier_grounds(seed: int) -> Grounds:
    """Those that an earlier version knew, too: each request for room is one of three kinds, and no pod has an image."""
    kept = as_kept(any_grounds(seed))
    for part in objects(kept.facts):
        part.pop("image", None)
    made_from = kept_as.read_grounds(kept)
    booking = booking_of("ml/r", [a_pod("r")], valid_for=timedelta(hours=2), provisioned_at=NOW, consumed=True)
    candidates = candidate_of("ml/w", [a_pod()], rejects=True), candidate_of("ml/x", ready=True, named=True)
    requests = (a_buffer(3), buffer_of("ml/odd", None, problem="no template"), *candidates, booking)
    return replace(made_from, facts=with_fields(made_from.facts, requests=requests))


def as_kept(made_from: Grounds) -> GroundsKept:
    """*made_from* as it is kept, without a database."""
    said = {name: kept_as.decompressed(body) for name, body in kept_as.grounds_values(made_from).items()}
    return GroundsKept(format=kept_as.FORMAT, **said)


def rows(store: SqlStore) -> int:
    """How many facts and policies are kept."""
    with store._database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(grounds)).scalar_one())


@pytest.mark.parametrize("seed", range(20))
def test_every_field_of_facts_and_policy_survives_whatever_is_in_it(seed: int) -> None:
    made_from = any_grounds(seed)
    found = kept_as.read_grounds(as_kept(made_from))
    for was, is_now in ((made_from.facts, found.facts), (made_from.policy, found.policy)):
        for name in (field.name for field in fields(was)):
            assert getattr(is_now, name) == getattr(was, name), name


def test_somewhere_every_field_is_something_else_than_its_default() -> None:
    for kind, seeds in ((Facts, range(5)), (Policy, range(5))):
        plain = any_value(kind, Random(0))
        bare = kind(**{f.name: getattr(plain, f.name) for f in fields(kind) if _needed(f)})
        for name in (f.name for f in fields(kind) if not _needed(f)):
            assert any(getattr(any_value(kind, Random(n)), name) != getattr(bare, name) for n in seeds), name


def _needed(field: Any) -> bool:
    return field.default is field.default_factory  # both are dataclasses.MISSING


@settings(LAWS, max_examples=50)
@given(world=worlds())
def test_the_same_code_decides_the_same_again(world: World) -> None:
    facts, policy = world
    found = kept_as.read_grounds(as_kept(Grounds(facts=facts, policy=policy)))
    made = decide_all(facts, assign(facts, policy), policy, explained_by=with_grounds)
    assert decide_all(found.facts, assign(found.facts, found.policy), found.policy, explained_by=with_grounds) == made


def test_what_a_later_version_added_is_passed_over() -> None:
    made_from = any_grounds(1)
    kept = as_kept(made_from)
    later = json.loads(json.dumps({"facts": kept.facts, "policy": kept.policy}))
    for part in objects(later):
        if part.keys() & {"at", "pool", "pools", "name"}:  # dataclasses; what is added to a mapping is an entry
            part["of_a_later_version"] = ["?"]
    found = kept_as.read_grounds(GroundsKept(format=kept_as.FORMAT, **later))
    assert found.facts.at == made_from.facts.at
    assert found.policy.pools == made_from.policy.pools


def test_what_an_earlier_version_did_not_know_has_its_default() -> None:
    kept = as_kept(any_grounds(2))
    earlier = {name: value for name, value in kept.policy.items() if name in ("pools", "billing")}
    found = kept_as.read_grounds(replace(kept, policy=earlier))
    assert found.policy.limits == Policy(pools=()).limits


def test_what_format_1_called_terminating_and_leaving_is_read() -> None:
    kept = as_kept(any_grounds(3))
    node = {"name": "n1", "instance": "i-1", "stage": "usable", "created_at": kept.facts["at"], "leaving": True}
    pod = {
        "namespace": "ml",
        "name": "p",
        "uid": "u",
        "requests": {},
        "phase": "running",
        "created_at": node["created_at"],
    }
    state = {"pool": "l40s", "required": 1, "nodes": [{**node, "pods": [{**pod, "terminating": True}]}]}
    [read] = kept_as.read_grounds(replace(kept, format=1, facts={**kept.facts, "pools": [state]})).facts.pools
    assert read.nodes[0].leaving
    assert read.nodes[0].pods[0].terminating


@pytest.mark.parametrize("seed", range(5))
def test_what_format_2_stored_of_a_node_which_had_no_parts_is_read(seed: int) -> None:
    made_from = any_earlier_grounds(seed)
    earlier = without_parts(as_kept(made_from), 2, *PARTS)
    for node in objects(earlier.facts):
        if "cordoned_by" in node:
            node["was_usable"] = node["usable_since"] is not None
    assert kept_as.read_grounds(earlier).facts == made_from.facts


@pytest.mark.parametrize("seed", range(5))
def test_what_format_3_stored_of_pools_which_had_no_parts_is_read(seed: int) -> None:
    made_from = any_earlier_grounds(seed)
    earlier = without_parts(as_kept(made_from), 3, *(kind for kind in PARTS if kind is not Node))
    assert any("removal_backoff" in each for each in objects(earlier.facts))
    assert kept_as.read_grounds(earlier).facts == made_from.facts


@pytest.mark.parametrize("name", ["buffers", "candidates", "bookings"])
def test_a_team_and_a_label_that_are_called_like_a_field_of_format_4_are_read(name: str) -> None:
    pod = a_pod(labels={name: "yes"})
    made_from = any_earlier_grounds(1)
    spend = replace(made_from.facts.spend, teams={name: Decimal("12.50")})
    made_from = replace(made_from, facts=replace(made_from.facts, spend=spend, waiting=(pod,)))
    assert kept_as.read_grounds(with_types_of_requests(as_kept(made_from))).facts == made_from.facts


def test_what_format_4_stored_of_requests_which_had_a_type_for_each_kind_is_read() -> None:
    made_from = any_earlier_grounds(1)
    earlier = with_types_of_requests(as_kept(made_from))
    assert {"buffers", "candidates", "bookings"} <= earlier.facts["other_work"].keys()
    assert kept_as.read_grounds(earlier).facts == made_from.facts


def test_a_node_of_an_earlier_version_that_knew_only_that_it_was_usable_was_so_since_its_creation() -> None:
    kept = as_kept(any_grounds(3))
    node = {"name": "n1", "instance": "i-1", "stage": "usable", "created_at": kept.facts["at"], "was_usable": True}
    state = {"pool": "l40s", "required": 1, "nodes": [node]}
    [read] = kept_as.read_grounds(replace(kept, format=2, facts={**kept.facts, "pools": [state]})).facts.pools
    assert read.nodes[0].times.usable_since == read.nodes[0].created_at


def test_a_later_format_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        WontWork, match=r"a later version stored the inputs .* \(format 6; this one reads 5\): use that version"
    ):
        kept_as.read_grounds(replace(as_kept(any_grounds(3)), format=6))


def test_what_cannot_be_read_is_named() -> None:
    kept = as_kept(any_grounds(4))
    with pytest.raises(WontWork, match=r"this version cannot read the inputs of this decision: at: Field required"):
        kept_as.read_grounds(replace(kept, facts={k: v for k, v in kept.facts.items() if k != "at"}))


def test_a_decision_keeps_what_it_was_made_from(store: SqlStore) -> None:
    made_from = any_grounds(5)
    found = store.grounds(store.decided(decision(), made_from))
    assert found is not None
    assert kept_as.read_grounds(found) == made_from


def test_of_a_decision_that_kept_nothing_there_is_nothing(store: SqlStore) -> None:
    assert store.grounds(store.decided(decision())) is None
    assert store.grounds(99) is None


@pytest.mark.database("rows are shared")
def test_the_decisions_of_a_step_share_it_and_those_of_steps_the_policy(store: SqlStore) -> None:
    made_from = any_grounds(6)
    store.decided(decision(), made_from)
    store.decided(decision(pool="other"), made_from)
    assert rows(store) == 2
    store.decided(decision(target=9), replace(made_from, facts=any_grounds(7).facts))
    assert rows(store) == 3


@pytest.mark.database("rows are counted")
def test_a_decision_that_says_nothing_else_keeps_nothing_new(store: SqlStore) -> None:
    number = store.decided(decision(), any_grounds(8))
    before = store.grounds(number)
    assert store.decided(decision(at=after(seconds=10)), any_grounds(9)) == number
    assert store.grounds(number) == before
    assert rows(store) == 2


@pytest.mark.database("the store in memory prunes nothing")
def test_it_is_forgotten_with_the_last_decision_that_was_made_from_it(store: SqlStore) -> None:
    shared = any_grounds(10)
    store.decided(decision(), shared)
    store.decided(decision(target=4), any_grounds(11))  # the pool's last one, which is kept whatever its age
    store.decided(decision(pool="other"), shared)
    store.decided(decision(pool="other", target=4, at=after(seconds=86400 * 2)), shared)
    assert rows(store) == 4
    store.prune(after(seconds=86400 * 91))
    assert rows(store) == 4
    store.decided(decision(pool="other", target=5, at=after(seconds=86400 * 3)), any_grounds(11))
    store.prune(after(seconds=86400 * 93))
    assert rows(store) == 2


def test_no_secret_has_a_place_in_it() -> None:
    told = {name for part in (Facts, Policy) for name in names(part)}
    assert not [name for name in told if any(word in name for word in ("token", "secret", "password", "api_key"))]


def names(kind: Any) -> Iterator[str]:
    """The fields of a dataclass and of those in it."""
    import typing

    for name, hint in typing.get_type_hints(kind).items():
        yield name
        for part in (hint, *typing.get_args(hint)):
            if isinstance(part, type) and is_dataclass(part) and part is not kind:
                yield from names(part)


def stored_names() -> dict[str, list[str]]:
    """The field names and words of everything that the inputs of a decision hold, by class."""
    found: dict[str, list[str]] = {}
    for kind in (Facts, Policy):
        schema = TypeAdapter(kind).json_schema()
        for name, known in {**schema.get("$defs", {}), kind.__name__: schema}.items():
            found[name] = sorted(str(each) for each in known.get("properties", known.get("enum", ())))
    return found


def test_no_name_that_earlier_versions_stored_is_lost() -> None:
    """A field that is renamed would silently have its default: keep its name, or raise FORMAT and read the old one."""
    before = json.loads(NAMES.read_text(encoding="utf-8"))
    now = stored_names()
    assert {name: lost for name, kept in before.items() if (lost := sorted(set(kept) - set(now.get(name, ()))))} == {}
