"""`gpu-autoscaler override`, asked of a server that really listens."""

import json
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from receiver.cli.main import main
from receiver.core.model.overrides import Override, OverrideKind
from receiver.ports import StoredOverride, TryLater
from simulator.store import MemoryStore
from tests.adapters.wire import unused_url
from tests.clocks import FixedClock
from tests.web.builders import L40S, NOW, OPERATOR, TOKEN, Bench, a_picture, a_pool
from tests.web.stores import add_overrides, stored_overrides

SAID = ("--for", "2h", "--why", "load test", "--who", "alice")


def override(url: str, *arguments: str, token: str | None = OPERATOR, **environment: str) -> Result:
    """Run the command as a person would, with the clock at NOW."""
    env = {"GPU_AUTOSCALER_URL": url, "GPU_AUTOSCALER_OPERATOR_TOKEN": token, **environment}
    return CliRunner(env=env).invoke(main, ["override", *arguments], obj=FixedClock(NOW))


def only(store: MemoryStore) -> Override:
    """The one override that the server keeps."""
    [kept] = stored_overrides(store).values()
    return kept.override


def keep(store: MemoryStore, **changes: Any) -> None:
    values: dict[str, Any] = {"id": "pin-l40s-1", "kind": OverrideKind.PIN, "pool": L40S, "nodes": 4, "who": "alice"}
    times = {"why": "load test", "at": NOW - timedelta(hours=1), "until": NOW + timedelta(hours=1)}
    override = Override(**{**values, **times, **changes})
    add_overrides(store, StoredOverride(override=override))


# --- setting one


@pytest.mark.parametrize("kind", ["pin", "floor", "ceiling"])
def test_a_size_is_set_with_pool_nodes_who_why_and_how_long(url: str, store: MemoryStore, kind: str) -> None:
    done = override(url, kind, "l40s", "4", *SAID)
    assert (done.exit_code, done.stderr) == (0, "")
    kept = only(store)
    assert (kept.kind, kept.pool, kept.nodes, kept.who, kept.why) == (kind, L40S, 4, "alice", "load test")
    assert kept.until == NOW + timedelta(hours=2)
    assert done.stdout.splitlines() == [
        f"{kept.id}: {kind} of 4 nodes of l40s by alice until 2026-03-10 16:30:00 UTC: load test",
        "the next step acts on it; see `gpu-autoscaler explain pool l40s`",
        f"to end it earlier: gpu-autoscaler override end {kept.id}",
    ]


@pytest.mark.parametrize("arguments", [("ceiling", "", "0"), ("pause", "")])
def test_a_variable_that_is_not_set_does_not_mean_every_pool(
    url: str, store: MemoryStore, arguments: tuple[str, ...]
) -> None:
    done = override(url, *arguments, *SAID)
    assert (done.exit_code, "POOL is empty" in done.stderr, stored_overrides(store)) == (2, True, {})


@pytest.mark.parametrize("kind", ["pause", "snooze"])
def test_one_pool_is_paused_or_snoozed(url: str, store: MemoryStore, kind: str) -> None:
    assert override(url, kind, "l40s", *SAID).exit_code == 0
    assert (only(store).kind, only(store).pool, only(store).nodes) == (kind, L40S, None)


@pytest.mark.parametrize("kind", ["pause", "snooze"])
def test_every_pool_is_paused_or_snoozed(url: str, store: MemoryStore, kind: str) -> None:
    done = override(url, kind, "--all", *SAID)
    assert only(store).pool is None
    assert f"{kind} of every pool by alice" in done.stdout


@pytest.mark.parametrize("arguments", [("l40s", "--all"), ()])
def test_a_pause_is_of_one_pool_or_of_every_pool(arguments: tuple[str, ...]) -> None:
    done = override(unused_url(), "pause", *arguments, *SAID)
    assert done.exit_code == 2
    assert "name one pool, or give --all for every pool" in done.stderr


def test_until_may_be_given_instead_of_how_long(url: str, store: MemoryStore) -> None:
    override(url, "pause", "l40s", "--until", "2026-03-10T15:00:00Z", "--why", "x", "--who", "alice")
    assert only(store).until == NOW + timedelta(minutes=30)


@pytest.mark.parametrize(("length", "minutes"), [("2 hours", 120), ("90 min", 90), ("until 15:00", 30)])
def test_how_long_is_taken_as_people_type_it(url: str, store: MemoryStore, length: str, minutes: int) -> None:
    override(url, "pause", "l40s", "--for", length, "--why", "x", "--who", "alice")
    assert only(store).until == NOW + timedelta(minutes=minutes)


def test_who_is_the_login_name_unless_it_is_said(url: str, store: MemoryStore) -> None:
    override(url, "pause", "l40s", "--for", "1h", "--why", "x", LOGNAME="bob")
    assert only(store).who == "bob"


def test_without_a_reason_nothing_is_asked() -> None:
    done = override(unused_url(), "pause", "l40s", "--for", "1h")
    assert done.exit_code == 2
    assert "--why" in done.stderr


def test_what_the_server_refuses_is_status_2_with_its_remedy(url: str, store: MemoryStore) -> None:
    done = override(url, "pin", "l4Os", "4", *SAID)
    assert (done.exit_code, done.stdout, stored_overrides(store)) == (2, "", {})
    assert done.stderr.splitlines() == [
        "no pool has this id or name",
        "what to do: did you mean l40s? use one of: l40s, a100, or all for every pool",
    ]


def test_a_refusal_is_a_document_too(url: str) -> None:
    done = override(url, "pin", "l40s", "99", *SAID, "--json")
    assert (done.exit_code, json.loads(done.stdout)["field"]) == (2, "nodes")


def test_what_was_set_can_be_had_as_json(url: str, store: MemoryStore) -> None:
    document = json.loads(override(url, "pin", "l40s", "4", *SAID, "--json").stdout)
    assert document["id"] == only(store).id


# --- who may


def test_without_a_token_nothing_is_asked() -> None:
    done = override(unused_url(), "pin", "l40s", "4", *SAID, token=None)
    assert done.exit_code == 2
    assert "GPU_AUTOSCALER_OPERATOR_TOKEN: is not set; set it to the server's token" in done.stderr


def test_a_token_of_two_words_is_refused_without_repeating_it() -> None:
    done = override(unused_url(), "pin", "l40s", "4", *SAID, token="one secret")
    assert done.exit_code == 2
    assert "contains spaces" in done.stderr
    assert "secret" not in done.output


def test_the_token_may_be_in_a_file(url: str, store: MemoryStore, tmp_path: Any) -> None:
    (tmp_path / "token").write_text(f"{OPERATOR}\n")
    file = {"GPU_AUTOSCALER_OPERATOR_TOKEN_FILE": str(tmp_path / "token")}
    assert override(url, "pause", "l40s", *SAID, token=None, **file).exit_code == 0
    assert only(store).kind == "pause"


def test_another_token_is_status_2_and_says_which_one_is_meant(url: str, store: MemoryStore) -> None:
    done = override(url, "pause", "l40s", *SAID, token=TOKEN)
    assert (done.exit_code, stored_overrides(store)) == (2, {})
    assert "the server has in GPU_AUTOSCALER_OPERATOR_TOKEN" in done.stderr
    assert TOKEN not in done.output


def test_a_password_in_the_url_does_not_take_the_tokens_place(url: str, store: MemoryStore) -> None:
    assert override(url.replace("//", "//oncall:pass-word@"), "pause", "l40s", *SAID).exit_code == 0
    assert only(store).kind == "pause"


# --- listing and ending


def test_what_is_in_force_is_listed_with_how_long_it_lasts_without_a_token(url: str, store: MemoryStore) -> None:
    keep(store)
    keep(store, id="pause-all-1", kind=OverrideKind.PAUSE, pool=None, nodes=None, at=NOW - timedelta(hours=2))
    keep(store, id="later", at=NOW + timedelta(minutes=1), until=NOW + timedelta(hours=5))
    done = override(url, "list", token=None)
    assert done.stdout.splitlines() == [
        "later: pin of 4 nodes of l40s by alice until 2026-03-10 19:30:00 UTC: load test (in 5 h), not in force yet",
        "pin-l40s-1: pin of 4 nodes of l40s by alice until 2026-03-10 15:30:00 UTC: load test (in 1 h)",
        "pause-all-1: pause of every pool by alice until 2026-03-10 15:30:00 UTC: load test (in 1 h)",
    ]


def test_nothing_in_force_is_said_too(url: str) -> None:
    assert override(url, "list").stdout == "no override is in force\n"


def test_the_list_can_be_had_as_json(url: str, store: MemoryStore) -> None:
    keep(store)
    assert [d["id"] for d in json.loads(override(url, "list", "--json").stdout)] == ["pin-l40s-1"]


def test_a_list_of_another_server_is_status_3(url: str) -> None:
    done = override(f"{url}/static/style.css?", "list")
    assert done.exit_code in (1, 3)
    assert done.stdout == ""


def test_a_store_that_is_down_is_status_3(url: str, bench: Bench) -> None:
    bench.error = TryLater("disk full")
    done = override(url, "list")
    assert (done.exit_code, "disk full" in done.stderr) == (3, True)
    assert done.stderr.splitlines()[-1].startswith("what to do: read its log with `kubectl logs")


def test_one_is_ended_by_the_login_name(url: str, store: MemoryStore) -> None:
    keep(store)
    done = override(url, "end", "pin-l40s-1", LOGNAME="bob")
    assert done.exit_code == 0
    assert stored_overrides(store)["pin-l40s-1"].ended_by == "bob"
    assert done.stdout.splitlines()[1] == "ended by bob; the configured policy applies again from the next step"


def test_one_that_is_not_there_is_status_1(url: str) -> None:
    done = override(url, "end", "pin-l40s-9")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == "no override has this id"


def test_an_id_that_looks_like_a_path_stays_one_word(url: str) -> None:
    assert override(url, "end", "../pools").exit_code == 1


# --- shown by explain


def test_explain_pool_names_every_override_in_force_and_what_is_kept(url: str, store: MemoryStore) -> None:
    shown = {"kind": "pin", "nodes": 4, "who": "alice", "why": "load test", "until": "2026-03-10T15:30:00+00:00"}
    more = [{**shown, "id": "pin-l40s-1"}, {**shown, "id": "p", "kind": "pause", "nodes": None, "every_pool": True}]
    node = {"name": "l40s-2", "stage": "usable", "pods": [], "idle_since": "2026-03-10T14:18:00+00:00"}
    kept = {**node, "kept_until": "2026-03-10T15:00:00+00:00", "kept_for": "ml/train-0"}
    store.keep_snapshot(a_picture(pools=[a_pool(overrides=more, nodes=[kept])]), NOW)
    runner = CliRunner(env={"GPU_AUTOSCALER_URL": url})
    lines = runner.invoke(main, ["explain", "pool", "l40s"], obj=FixedClock(NOW)).stdout.splitlines()
    assert "override: pin of 4 nodes by alice until 2026-03-10 15:30:00 UTC: load test (pin-l40s-1)" in lines
    assert "override: pause of every pool by alice until 2026-03-10 15:30:00 UTC: load test (p)" in lines
    assert any(line.endswith("kept until 15:00:00 UTC for ml/train-0") for line in lines)
