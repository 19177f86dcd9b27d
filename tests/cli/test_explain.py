"""`gpu-autoscaler explain`, asked of a server that really listens.

Why did it not scale? The answer stands in the first five lines of `explain`, of the pod and of the pool.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from click.testing import CliRunner, Result

from receiver.cli.main import main
from receiver.core.model.policy import Budget
from receiver.core.model.signals import COMPONENT, Matcher, Silence
from receiver.ports import TryLater
from simulator.store import MemoryStore
from tests.adapters.wire import unused_url
from tests.cli.asked import ask, keep_picture, serving
from tests.clocks import FixedClock
from tests.given import lives
from tests.given.life import SIZE, Life, a_job
from tests.web.builders import A100, L40S, NOW, Bench, a_decision, a_picture, a_pool, a_wait, a_waiting_pod, an_action
from tests.web.evidence import EVIDENCE
from tests.web.stores import add_actions, add_decisions

RAISE = "gpu-autoscaler budget set USD --why REASON --who YOU"


def explain(url: str | None, *arguments: str, later: timedelta = timedelta(0)) -> Result:
    """Run the command as a person would, with the clock at NOW."""
    runner = CliRunner(env={"GPU_AUTOSCALER_URL": url})
    return runner.invoke(main, ["explain", *arguments], obj=FixedClock(NOW + later))


# --- a pod


def test_a_waiting_pod_is_explained_on_one_screen(url: str) -> None:
    done = explain(url, "pod", "research/train-llm-2")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "pod research/train-llm-2 has been waiting since 14:25:56 UTC (4 min) for 1 nvidia.com/gpu",
        f"state: blocked - {a_waiting_pod()['detail']}",
        f"what to do: raise the budget ({RAISE}), end other GPU work, or wait for the next month",
        "the scheduler says: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu",
        "pools: l40s fits",
        "       a100: its node selector wants gpu=l40s, nodes carry gpu=a100",
        "decision: 42 of GPU pool l40s, priority 0",
        "as of 14:29:56 UTC",
    ]


def test_a_gang_is_told_with_what_waits_what_runs_and_what_must(url: str, store: MemoryStore) -> None:
    gang = {"waiting": 3, "least": 4, "bound": 1}
    keep_picture(store, waiting=[a_waiting_pod(gang=gang, workload="research/train-llm")])
    said = explain(url, "pod", "research/train-llm-2").stdout
    gang_line = "gang: research/train-llm: 3 pods waiting, 1 already on a node, at least 4 must run together"
    assert gang_line in said.splitlines()


def test_a_pod_that_waits_since_another_day_shows_the_date(url: str, store: MemoryStore) -> None:
    keep_picture(store, waiting=[a_waiting_pod(since="2026-03-09T14:29:56+00:00")])
    assert (
        "has been waiting since 2026-03-09 14:29:56 UTC (1 d) for" in explain(url, "pod", "research/train-llm-2").stdout
    )


def test_an_old_picture_is_told_as_old(url: str) -> None:
    said = explain(url, "pod", "research/train-llm-2", later=timedelta(minutes=9)).stdout
    assert said.splitlines()[-1] == "as of 14:29:56 UTC - 9 min ago: the loop may be stalled, see /healthz"


def test_the_servers_own_document_can_be_had_as_json(url: str) -> None:
    document = json.loads(explain(url, "pod", "research/train-llm-2", "--json").stdout)
    assert (document["state"], document["rule"], document["pool"]) == ("held", "within_budget", L40S)


def test_a_pod_that_does_not_wait_is_status_1_with_all_that_this_can_mean(url: str) -> None:
    done = explain(url, "pod", "research/nobody")
    assert (done.exit_code, done.stdout) == (1, "")
    lines = done.stderr.splitlines()
    assert lines[0] == "pod research/nobody does not wait for a GPU as of the last step"
    assert lines[1].startswith("possible reasons: it runs")
    assert lines[-1] == "what to do: see `kubectl get pod -n research nobody -o wide`"


def test_a_pod_that_does_not_wait_is_a_document_too(url: str) -> None:
    done = explain(url, "pod", "research/nobody", "--json")
    assert done.exit_code == 1
    assert "can_mean" in json.loads(done.stdout)


def test_a_pod_that_runs_is_told_where(url: str) -> None:
    done = explain(url, "pod", "research/train-llm-0")
    assert done.exit_code == 1
    assert "it is bound to node l40s-0 of GPU pool l40s" in done.stderr


@pytest.mark.parametrize("pod", ["train-0", "ml/", "/train-0", "ml/train/0", "ml/../pools", "ML/Train", ""])
def test_a_pod_without_a_namespace_is_refused_with_the_form(pod: str) -> None:
    done = explain(unused_url(), "pod", pod)
    assert done.exit_code == 2
    assert "write NAMESPACE/NAME, such as ml/train-0" in done.stderr


# --- a pool


def test_a_pool_is_explained_with_its_counts_and_every_rule_that_spoke(url: str) -> None:
    done = explain(url, "pool", "l40s")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"GPU pool l40s ({L40S}), size an.g1.l40s.kube.x1, mode act",
        "scaling: 1 GPU is waited for and 1 node is on its way.",
        "on the way since 13:52:00 UTC (37 min): node l40s-3 is being built; a node usually takes 7 min",
        "fits no pool: research/needs-mig: it asks for 4 nvidia.com/mig-1g.10gb, a node offers 0",
        "nodes: 4 required, 3 ready, 1 building, 2 busy, 1 idle, 0 unknown",
        "wanted: 4, allowed 0 to 8; 1 pending GPU",
        "why: decision 42 (grow, 3 -> 4 nodes); the rules that had an effect, in order:",
        "  wants    6  demand: 3 GPUs are waited for.",
        "  limits   4  within_limits: 1 of 3 fits the hourly limit.",
        "  and 1 guardrail passed",
        "no growth: cooldown, ends at 14:30:20 UTC (in 24 s): it grew at 2026-03-10 14:29:50 UTC",
        "open action: grow 3 -> 4 nodes since 14:27:00 UTC (2 min)",
        "NODE    STAGE     PAID UNTIL  GPU PODS",
        "l40s-0  usable    14:52:00    research/train-llm-0",
        "l40s-1  usable    14:52:00    research/train-llm-1 default/notebook-7",
        "l40s-2  usable    14:52:00    idle since 14:18:00 UTC (11 min)",
        "l40s-3  building  unknown     none",
        "as of 14:29:56 UTC",
    ]


def test_a_pool_in_trouble_says_what_keeps_it(url: str) -> None:
    lines = explain(url, "pool", "a100").stdout.splitlines()
    assert "paused: silenced in Alertmanager by night shift until 2026-03-10 18:00 UTC: maintenance" in lines
    out_of_stock = "ends at 14:37:00 UTC (in 7 min): Civo is out of stock for this size"
    assert f"no growth: backoff after 3 failures, {out_of_stock}" in lines
    assert any(line.startswith("no removal of a100-0: backoff after 1 failure, ends at 14:42:00 UTC") for line in lines)
    assert any(line.endswith("last error: TryLater: Civo answered 503") for line in lines)


def test_a_pool_whose_nodes_never_came_and_whose_count_others_moved_says_so(url: str, store: MemoryStore) -> None:
    until = (NOW + timedelta(minutes=9)).isoformat()
    provisioning = {"until": until, "reason": "l40s-3 boots", "failures": 2}
    wait = a_wait("grow", "provisioning", until, "l40s-3 boots", failures=2)
    keep_picture(store, pools=[a_pool(provisioning=provisioning, waits=[wait], uncounted=1, drifts=2)])
    said = explain(url, "pool", "l40s").stdout
    assert "no growth: provisioning after 2 failures, ends at 14:39:00 UTC (in 9 min): l40s-3 boots" in said
    assert "(Civo still counts 1 removed node); others changed the count 2 times in the last day" in said


def test_open_windows_stand_behind_the_bounds_that_they_make(url: str, store: MemoryStore) -> None:
    keep_picture(store, pools=[a_pool(max_nodes=2, windows=["nights", "weekends"])])
    assert "allowed 0 to 2 (window nights, weekends); 1 pending GPU" in explain(url, "pool", "l40s").stdout


def test_a_pool_whose_back_off_is_over_tries_one_node_at_a_time(url: str, store: MemoryStore) -> None:
    provisioning = {"until": (NOW - timedelta(minutes=1)).isoformat(), "reason": "l40s-3 boots", "failures": 2}
    keep_picture(store, pools=[a_pool(provisioning=provisioning, waits=[])])
    said = explain(url, "pool", "l40s").stdout
    assert "one node at a time is tried until one works, after 2 failures: l40s-3 boots" in said


def test_a_large_pool_stays_on_one_screen(url: str, store: MemoryStore) -> None:
    nodes = [{"name": f"n{i}", "stage": "usable", "pods": []} for i in range(25)]
    keep_picture(store, pools=[a_pool(nodes=nodes)])
    lines = explain(url, "pool", "l40s").stdout.splitlines()
    assert lines[-2] == "and 5 more"
    assert sum(line.startswith("n1") for line in lines) == 11


def test_a_pool_before_the_first_step_is_explained_without_numbers(url: str, store: MemoryStore) -> None:
    store.forget()
    done = explain(url, "pool", A100)
    assert done.exit_code == 0
    assert "nodes: ? required" in done.stdout
    assert done.stdout.splitlines()[-1] == "as of: no step has finished yet"


def test_a_pool_as_json_comes_with_its_decision(url: str) -> None:
    document = json.loads(explain(url, "pool", "l40s", "--json").stdout)
    assert (document["pool"]["name"], document["decision"]["id"]) == ("l40s", 42)


def test_an_unknown_pool_is_status_1_with_the_known_ones(url: str) -> None:
    done = explain(url, "pool", "h100")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines() == ["no pool has this id or name", "what to do: use one of: l40s, a100"]


def test_explain_takes_the_name_of_a_pool_at_once(url: str) -> None:
    assert explain(url, "l40s").stdout == explain(url, "pool", "l40s").stdout
    assert json.loads(explain(url, "l40s", "--json").stdout)["pool"]["name"] == "l40s"
    assert explain(url, "h100").exit_code == 1


def test_what_others_wrote_does_not_move_the_cursor_or_begin_a_line(url: str, store: MemoryStore) -> None:
    keep_picture(store, pools=[a_pool(silenced_by="\x1b[2Jall is well\nit grows")])
    said = explain(url, "l40s").stdout
    assert "paused: ?[2Jall is well?it grows" in said.splitlines()


def test_where_messages_about_a_pool_go_is_said(store: MemoryStore) -> None:
    with serving(replace(Bench(store=store).parts(), messages_to=("destination 1 (slack)",))) as url:
        said = explain(url, "l40s").stdout.splitlines()
    assert said[-2] == "messages about it go to destination 1 (slack)"


def test_what_people_are_asked_about_a_pool_stands_before_its_counts(url: str, store: MemoryStore) -> None:
    asked = {"id": "q-1", "state": "open", "said": "approval requested until 15:00: remove l40s-2"}
    keep_picture(store, pools=[a_pool(questions=[asked])])
    lines = explain(url, "l40s").stdout.splitlines()
    assert lines[2] == f"{asked['said']}: gpu-autoscaler approvals approve q-1 --who YOU"


def test_what_would_change_a_pools_size_is_told_as_the_last_step_knew_it(url: str, store: MemoryStore) -> None:
    keep_picture(store, pools=[a_pool(what_would_change=[{"rule": "within_budget", "text": "by at least $18.76"}])])
    assert "to change it: by at least $18.76" in explain(url, "l40s").stdout.splitlines()


def test_the_rules_are_those_of_the_last_step_although_an_older_decision_says_the_same(
    url: str, store: MemoryStore
) -> None:
    held = {"rule": "sources_answer", "verdict": "holds", "target": 3, "detail": "no growth while heartbeat: silent"}
    keep_picture(store, pools=[a_pool(reasons=[held])])
    assert "  blocks   3  sources_answer: no growth while heartbeat: silent" in explain(url, "l40s").stdout.splitlines()


# --- a decision


def test_a_decision_is_explained_from_what_was_stored_with_it(url: str, store: MemoryStore) -> None:
    store.forget()
    add_decisions(store, a_decision(40, target=3), a_decision(evidence=EVIDENCE), a_decision(43, target=5))
    add_actions(store, an_action())
    done = explain(url, "decision", "42")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"decision 42 of GPU pool l40s-before ({L40S}): grow, 3 -> 4 nodes",
        "because: ml/train waits for 3 GPUs: 3 more nodes; within_limits: at most 1",
        "made: 2026-03-10 14:27:00 UTC (3 min ago), by version 0.0.9 in mode act",
        "what would change it: within_limits: a higher limit",
        "                      cooled_down: by itself at 14:30",
        "could change by itself at 15:27:00 UTC, earlier if the facts change",
        "the rules that had an effect, in order:",
        "  wants    6  demand: 3 GPUs are waited for.",
        "  limits   4  within_limits: 1 of 3 fits the hourly limit.",
        "  and 1 guardrail passed",
        "requested by: ml/train (Job/train, team vision), 3 GPUs, since 14:20:00 UTC (7 min)",
        "              and 4 more",
        "alerts: GpuPodsPending (scale_up), ab12, since 14:22:00 UTC (5 min), delivery 117",
        "silent sources: dcgm since 14:10:00 UTC (17 min): no series",
        "silence: silenced in Alertmanager by night shift until 2026-03-10 18:00 UTC: maintenance",
        "override p-1: pin of 4 nodes by ada: demo",
        "bounds: 0 to 8 nodes of an.g1.l40s.kube.x1, $1.29 an hour each",
        "cluster budget of 2026-03: $3,120.44 of $5,000.00 spent, $412.80 reserved, stage warn",
        "action: retire 3 -> 2 nodes, opened at 14:00:00 UTC",
        "        l40s-9: gone at 14:10:00 UTC",
        "        confirmed at 14:10:00 UTC: the instance is gone",
        "adjacent decisions of this pool: previous 40, next 43",
    ]


def test_a_decision_as_json_is_the_servers_document(url: str) -> None:
    document = json.loads(explain(url, "decision", "42", "--json").stdout)
    assert (document["id"], document["verdict"], document["actions"][0]["kind"]) == (42, "grow", "retire")


def test_a_decision_that_is_not_kept_is_status_1_with_where_to_look(url: str) -> None:
    done = explain(url, "decision", "99")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "no decision has this id" in done.stderr


def test_what_is_no_number_is_status_2(url: str) -> None:
    done = explain(url, "decision", "latest")
    assert done.exit_code == 2
    assert "a decision's id is a whole number" in done.stderr


def test_a_pod_that_waits_no_longer_is_told_with_the_decision_that_was_about_it(url: str, store: MemoryStore) -> None:
    store.forget()
    store.keep_snapshot(a_picture(), NOW)
    add_decisions(store, a_decision(evidence={**EVIDENCE, "asking": ["research/gone-0"]}))
    done = explain(url, "pod", "research/gone-0")
    assert done.exit_code == 1
    said = "decision 42 at 2026-03-10 14:27:00 UTC was about it: GPU pool l40s-before, grow, 3 -> 4 nodes"
    assert f"earlier decisions: {said}" in done.stderr.splitlines()


# --- asking


def test_without_a_word_the_help_is_shown(url: str) -> None:
    said = explain(url).output
    assert "pod " in said
    assert "pool " in said
    assert "GPU_AUTOSCALER_URL" in said


def test_a_server_that_does_not_answer_is_status_3_with_the_url_and_a_remedy() -> None:
    nobody = unused_url()
    done = explain(nobody, "pod", "ml/train-0")
    assert (done.exit_code, done.stdout) == (3, "")
    assert done.stderr.startswith(f"cannot reach the server at {nobody}: ")
    assert "set GPU_AUTOSCALER_URL to its address" in done.stderr
    assert "kubectl port-forward" in done.stderr


def test_a_server_whose_store_is_down_is_status_3_and_says_what_helps(url: str, bench: Bench) -> None:
    bench.error = TryLater("disk full")
    done = explain(url, "pool", "l40s")
    assert done.exit_code == 3
    assert "the store does not answer: disk full; try again" in done.stderr
    assert "GPU_AUTOSCALER_URL" not in done.stderr


@pytest.mark.parametrize("wrong", ["ftp://autoscaler", "autoscaler:8080", "http://"])
def test_a_url_that_is_none_is_status_2(wrong: str) -> None:
    done = explain(wrong, "pod", "ml/train-0")
    assert done.exit_code == 2
    assert "GPU_AUTOSCALER_URL: is not an http or https URL" in done.stderr


def test_a_password_in_the_url_is_not_shown() -> None:
    done = explain(unused_url().replace("//", "//oncall:secret-word@"), "pod", "ml/train-0")
    assert done.exit_code == 3
    assert "secret-word" not in done.output


# --- why it did not scale


MINUTE = timedelta(minutes=1)
FIRST = 5  # lines that a person reads before looking elsewhere


@dataclass(frozen=True, kw_only=True)
class Case:
    """A life that ends with a pod ml/train-0 that waits, and the words that answer why."""

    live: Callable[[MemoryStore], Life]
    of_the_pod: str
    of_the_pool: str


def over_budget(store: MemoryStore) -> Life:
    return lived(store, budget=Budget(monthly_usd=Decimal(1)))


def silenced(store: MemoryStore) -> Life:
    life = lives.at_zero(store)
    names = (Matcher(name="component", value=COMPONENT), Matcher(name="pool", value="l40s"))
    ends = life.now + timedelta(hours=2)
    life.alarms.silences = [Silence(id="s-1", matchers=names, ends_at=ends, created_by="ada", comment="new driver")]
    return waiting(life)


def out_of_stock(store: MemoryStore) -> Life:
    return lived(store, stock={SIZE: 0})


def mislabelled(store: MemoryStore) -> Life:
    return lived(store, node_selector={"gpu": "a100"})


def waiting_for_the_driver(store: MemoryStore) -> Life:
    return lived(store, minutes=2)


def lived(store: MemoryStore, *, minutes: int = 1, node_selector: Any = None, **changes: Any) -> Life:
    return waiting(lives.at_zero(store, **changes), minutes=minutes, node_selector=node_selector or {})


def waiting(life: Life, *, minutes: int = 1, **job: Any) -> Life:
    life.submit(a_job(**job))
    life.run(minutes * MINUTE)
    return life


CASES = {
    "the budget": Case(
        live=over_budget,
        of_the_pod="the cluster budget is $0.29 short",
        of_the_pool="[within_budget]",
    ),
    "a silence": Case(
        live=silenced,
        of_the_pod="paused by a silence of ada until 14:00 UTC",
        of_the_pool="silenced in Alertmanager by ada until 2026-11-20 14:00 UTC: new driver",
    ),
    "no stock": Case(
        live=out_of_stock,
        of_the_pod="too few an.g1.l40s.kube.x1 are free at Civo, next try at",
        of_the_pool="[not_backing_off]",
    ),
    "a label": Case(
        live=mislabelled,
        of_the_pod="its node selector wants gpu=a100",
        of_the_pool="fits no pool: ml/train-0: its node selector wants gpu=a100",
    ),
    "the driver": Case(
        live=waiting_for_the_driver,
        of_the_pod="installs its GPU driver",
        of_the_pool="installs its GPU driver",
    ),
}


@pytest.fixture(scope="module", params=list(CASES))
def told(request: pytest.FixtureRequest) -> tuple[Case, list[str], list[str]]:
    """A case, and what `explain` says of the pod and of the pool."""
    case = CASES[request.param]
    store = MemoryStore()
    life = case.live(store)
    bench = Bench(store=store, policy=life.policy, clock=FixedClock(life.now))
    with serving(bench.parts()) as url:
        pod = ask(url, "explain", "pod", "ml/train-0", at=life.now)
        pool = ask(url, "explain", "l40s", at=life.now)
    assert (pod.exit_code, pool.exit_code) == (0, 0), pod.output + pool.output
    return case, pod.stdout.splitlines(), pool.stdout.splitlines()


def test_explain_pod_answers_in_its_first_lines(told: tuple[Case, list[str], list[str]]) -> None:
    case, pod, _ = told
    assert any(case.of_the_pod in line for line in pod[:FIRST]), pod


def test_explain_pool_answers_in_its_first_lines(told: tuple[Case, list[str], list[str]]) -> None:
    case, _, pool = told
    assert any(case.of_the_pool in line for line in pool[:FIRST]), pool


def test_what_would_change_it_is_said_where_something_holds(told: tuple[Case, list[str], list[str]]) -> None:
    case, _, pool = told
    if case.live in (over_budget, silenced, out_of_stock):
        assert any(line.startswith("to change it: ") for line in pool), pool
