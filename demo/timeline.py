"""Turn what the parts of a stack show from outside into events, one line each. Pure: no clock, no network."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

JSON = Mapping[str, Any]

HOSTNAME = re.compile(r"k3s-[\w-]*?-node-pool-[0-9a-f]+-(\w{5})\b")
GROUP_LABEL = re.compile(r'(\w+)=\\?"([^"\\]*)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened. *kind* is a word for its column, *text* one line, *more* further lines."""

    at: datetime
    kind: str
    text: str
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The answers of one poll: the simulator's state and calls, Alertmanager's alerts, the autoscaler's
    decisions and actions, and the lines of its log that are new."""

    state: JSON
    calls: Sequence[JSON] = ()
    alerts: Sequence[JSON] = ()
    decisions: Sequence[JSON] = ()
    actions: Sequence[JSON] = ()
    log: Sequence[JSON] = ()


def moment(text: str) -> datetime:
    """Return an RFC 3339 time; Prometheus and Alertmanager write a Z and up to nine decimals."""
    text = re.sub(r"(\.\d{6})\d+", r"\1", text.replace("Z", "+00:00"))
    return datetime.fromisoformat(text)


def shortened(text: str) -> str:
    """Return *text* with the long names of Civo's nodes reduced to the five characters that differ."""
    return HOSTNAME.sub(r"node \1", text)


def deciding(decision: JSON) -> JSON:
    """Return the reason that settled a decision: the first that holds, else the last that wants or limits."""
    reasons = decision["reasons"]
    holds = [r for r in reasons if r["verdict"] == "holds"]
    moves = [r for r in reasons if r["verdict"] in ("wants", "limits")]
    notes = [r for r in reasons if r["verdict"] == "notes" and r["detail"]]
    reason: JSON = holds[0] if holds else (moves or notes or reasons)[-1]
    return reason


def group_of(line: JSON) -> dict[str, str]:
    """Return alertname and pool of a delivery's log line: its group key ends with them."""
    found = str(line.get("group", "")).rpartition(":{")[2]
    return dict(GROUP_LABEL.findall(found))


@dataclass(slots=True)
class Timeline:
    """Keeps what was seen before, so that each thing becomes one event. *pools* maps Civo's ids to names."""

    pools: Mapping[str, str]
    events: list[Event] = field(default_factory=list)
    deliveries: dict[int, dict[str, str]] = field(default_factory=dict)
    notices: list[JSON] = field(default_factory=list)
    decisions: dict[int, JSON] = field(default_factory=dict)
    calls: list[JSON] = field(default_factory=list)
    required_peak: dict[str, int] = field(default_factory=dict)
    _firing: set[tuple[str, str]] = field(default_factory=set)
    _shown: dict[str, str] = field(default_factory=dict)
    _known: set[tuple[str, ...]] = field(default_factory=set)
    _asked_at: dict[str, datetime] = field(default_factory=dict)
    _nodes: dict[str, str] = field(default_factory=dict)

    def observe(self, seen: Seen) -> list[Event]:
        """Take in one round; return what is new, in order of time."""
        new = [
            *self._pods(seen.state),
            *self._alerts(seen.alerts),
            *self._log_lines(seen.log),
            *self._decisions(seen.decisions),
            *self._calls(seen.calls),
            *self._nodes_of(seen.state),
            *self._finished(seen.state),
        ]
        new.sort(key=lambda e: e.at)
        self.events += new
        return new

    def pool_name(self, pool: str) -> str:
        """Return what people call a pool."""
        return self.pools.get(pool, pool)

    def _first(self, *key: str) -> bool:
        new = key not in self._known
        self._known.add(key)
        return new

    def _pods(self, state: JSON) -> Iterator[Event]:
        at = moment(state["now"])
        for pod in state["pods"]:
            name = f"{pod['namespace']}/{pod['name']}"
            gpus = sum(pod["requests"].values())
            if not gpus:
                continue
            if pod["phase"] == "Pending" and pod["scheduled"] is False and self._first("waits", name):
                yield Event(
                    at=at, kind="pod", text=f"{name} is pending: it asks for {gpus} {_gpus(gpus)}, none is free"
                )
            if pod["phase"] in ("Running", "Succeeded") and self._first("runs", name):
                yield Event(at=at, kind="job", text=f"{name} started on {shortened(pod['node'] or 'a node')}")

    def _alerts(self, alerts: Sequence[JSON]) -> Iterator[Event]:
        """Tell alerts that begin to fire; one that only changes its other labels goes on firing."""
        before, self._firing = self._firing, set()
        for alert in alerts:
            labels = alert["labels"]
            name, pool = labels.get("alertname", ""), labels.get("pool", "")
            if labels.get("component") != "gpu-autoscaler" or (name, pool) in self._firing:
                continue
            self._firing.add((name, pool))
            if (name, pool) not in before and labels.get("action") != "heartbeat":
                text = f"{name} fires for {self.pool_name(pool) or 'every pool'}"
                yield Event(at=moment(alert["startsAt"]), kind="alert", text=text)

    def _log_lines(self, lines: Sequence[JSON]) -> Iterator[Event]:
        for line in lines:
            if line.get("event") == "delivery":
                group = group_of(line)
                self.deliveries[int(line["delivery"])] = group
                known = self.called(group)
                fires = (group.get("alertname", ""), group.get("pool", "")) in self._firing
                text = f"delivery {line['delivery']}: {known}{'' if fires else ' (resolved)'}"
                yield Event(at=moment(line["timestamp"]), kind="webhook", text=text)
            elif line.get("event") == "notice":
                self.notices.append(line)
                body = tuple(shortened(x) for x in str(line["body"]).splitlines())
                yield Event(at=moment(line["timestamp"]), kind="notice", text=shortened(line["title"]), more=body)

    def called(self, group: Mapping[str, str]) -> str:
        """Return a delivery's group in words."""
        pool = group.get("pool")
        return group.get("alertname", "unknown") + (f" of {self.pool_name(pool)}" if pool else "")

    def _decisions(self, decisions: Sequence[JSON]) -> Iterator[Event]:
        for decision in sorted(decisions, key=lambda d: d["id"]):
            self.decisions[decision["id"]] = decision
            wanted = any(r["verdict"] == "wants" for r in decision["reasons"])
            if not (wanted or decision["from"] != decision["to"]) or not self._first("decision", str(decision["id"])):
                continue
            reason = deciding(decision)
            name = decision["pool_name"]
            change = f"{decision['from']} -> {decision['to']}" if decision["from"] != decision["to"] else "stays at {}"
            text = f"{name} {change.format(decision['from'])} by {reason['rule']}: {reason['detail']}"
            if self._shown.get(name) == text:
                continue  # stored again because a note changed
            self._shown[name] = text
            yield Event(at=moment(decision["at"]), kind="decision", text=shortened(text) + self._woken(decision))

    def _woken(self, decision: JSON) -> str:
        by = decision["evidence"].get("woken_by") or []
        if not by:
            return " (looked again by itself)"
        return f" (woken by delivery {', '.join(map(str, by))})"

    def _calls(self, calls: Sequence[JSON]) -> Iterator[Event]:
        for call in calls:
            if call["status"] is None or call["method"] in ("GET", "HEAD") or not self._first("call", str(call["seq"])):
                continue
            self.calls.append(call)
            at, parts = moment(call["at"]), str(call["path"]).split("/")
            if call["face"] == "civo" and "pools" in parts:
                pool = parts[parts.index("pools") + 1]
                name = self.pool_name(pool)
                if call["method"] == "PUT":
                    self._asked_at[pool] = at
                    text = f"PUT pool {name}: {call['body'].get('count')} nodes, answer {call['status']}"
                else:
                    node = self._nodes.get(parts[-1], parts[-1])
                    text = f"{call['method']} {node} of pool {name}, answer {call['status']}"
                yield Event(at=at, kind="civo", text=text)
            elif call["face"] == "kubernetes" and call["method"] == "PATCH" and "nodes" in parts:
                unschedulable = (call["body"] or {}).get("spec", {}).get("unschedulable")
                word = "cordoned" if unschedulable else "uncordoned"
                yield Event(at=at, kind="node", text=f"{shortened(parts[-1])} {word}")

    def _nodes_of(self, state: JSON) -> Iterator[Event]:
        now = moment(state["now"])
        listed: set[str] = set()
        for pool in state["pools"]:
            name = self.pool_name(pool["id"])
            self.required_peak[pool["id"]] = max(pool["required"], self.required_peak.get(pool["id"], 0))
            for vm in pool["instances"]:
                listed.add(vm["id"])
                node = self._nodes.setdefault(vm["id"], shortened(vm["hostname"]))
                if vm["usable_at"] and self._first("usable", vm["id"]):
                    at = moment(vm["usable_at"])
                    took = (at - moment(vm["created_at"])).total_seconds()
                    yield Event(
                        at=at, kind="node", text=f"{node} of {name} is usable, {took:.1f} s after it was asked for"
                    )
        for instance in [i for i in self._nodes if i not in listed]:
            if self._first("gone", instance):
                yield Event(at=now, kind="node", text=f"{self._nodes[instance]} is gone")

    def _finished(self, state: JSON) -> Iterator[Event]:
        for job in state["finished"]:
            if self._first("finished", job["id"]):
                text = f"{job['id']} is done; it had waited {job['wait_seconds']:.1f} s"
                yield Event(at=moment(job["finished_at"]), kind="job", text=text)


def _gpus(count: int) -> str:
    return "GPU" if count == 1 else "GPUs"


def growth_calls(calls: Iterable[JSON]) -> Iterator[tuple[datetime, str, JSON]]:
    """Return time, pool id and call of every PUT of a pool that Civo accepted."""
    for call in calls:
        parts = str(call["path"]).split("/")
        accepted = call["status"] is not None and 200 <= call["status"] < 300
        if call["face"] == "civo" and call["method"] == "PUT" and "pools" in parts and accepted:
            yield moment(call["at"]), parts[parts.index("pools") + 1], call
