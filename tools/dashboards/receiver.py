"""The receiver itself: webhooks, steps, Civo's API, and invariants."""

from tools.dashboards import annotations, links, looks
from tools.dashboards.grids import heatmap, states
from tools.dashboards.model import Dashboard, Panel, Row, Target
from tools.dashboards.panels import stat, table, timeseries, values
from tools.dashboards.promql import (
    NO_RECEIVER,
    POOL,
    STEPPED,
    growth,
    happened,
    kept,
    of,
    or_zero,
    quantile,
    summed,
    told,
)
from tools.dashboards.variables import pools

ACTIONS = "gpu_autoscaler_actions_total"
CHARGES = of("gpu_autoscaler_charges_age_seconds")  # there since Civo first reported any
SECONDS = looks.steps(looks.GREEN, (120, looks.AMBER), (300, looks.RED))
UID = "gpu-autoscaler-receiver"


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        uid=UID,
        title="GPU autoscaler / Receiver",
        description="The autoscaler's own health: webhooks, steps, sources, Civo's API, messages, invariants.",
        rows=links.with_runbooks(
            Row(title="Now", panels=(*_now(), _sources(), _holds(), _steps(), _outbox(), _civo(), _answers())),
            Row(title="Webhooks and steps", panels=_work(), folded=True),
            Row(title="Civo, messages and charges", panels=_outside(), folded=True),
            Row(title="How old its data is", panels=_ages(), folded=True),
            Row(title="Actions", panels=_actions(), folded=True),
        ),
        annotations=annotations.EVERY,
        variables=(pools(), *links.VARIABLES),
        links=links.of_dashboard(UID, "/", "Status page"),
    )


def _age(metric: str) -> str:
    """The time since *metric*, in the cluster in which it is the longest."""
    return f"max(time() - max by (cluster) ({of(metric)}))"


def _now() -> tuple[Panel, ...]:
    acts = f"max by (cluster) ({of('gpu_autoscaler_mode', mode='act')})"
    versions = f"group by (version) ({of('gpu_autoscaler_build_info')})"
    differs = f"max({of('gpu_autoscaler_configuration_differs')})"
    failed = f"sum{growth('gpu_autoscaler_loop_errors_total', window='1h')}"
    return (
        stat(
            "Mode",
            "act: it scales. observe: it only reports what it would do. A new installation observes.",
            Target(expr=acts, legend="{{cluster}}"),
            empty=NO_RECEIVER,
            unit="none",
            width=3,
            thresholds=looks.steps(looks.AMBER, (1, looks.GREEN)),
            mappings=looks.words(_1=("act", looks.GREEN), _0=("observe", looks.AMBER)),
        ),
        stat(
            "Age of the last step",
            "Seconds since the last step that served the pools. Normally at most a tick plus a step.",
            Target(expr=f"max(min by (cluster) ({of('gpu_autoscaler_step_age_seconds')}))", legend="age"),
            empty=NO_RECEIVER,
            unit="s",
            thresholds=SECONDS,
        ),
        stat(
            "Age of the heartbeat",
            "Seconds since GpuAutoscalerHeartbeat last arrived through Prometheus and Alertmanager. Pools do not "
            "shrink while it is missing.",
            Target(expr=_age("gpu_autoscaler_last_heartbeat_timestamp_seconds"), legend="age"),
            empty="None arrived",
            unit="s",
            thresholds=looks.steps(looks.GREEN, (300, looks.AMBER), (600, looks.RED)),
        ),
        stat(
            "Failed steps in an hour",
            "Failed steps of all processes. Should be 0.",
            Target(expr=failed, legend="errors"),
            empty=NO_RECEIVER,
            unit="short",
            decimals=0,
            thresholds=looks.NONE_IS_GOOD,
        ),
        stat(
            "Messages pending",
            "Undelivered messages to people. If it stays up, see the panel Outbox.",
            Target(expr=summed("gpu_autoscaler_notices_pending"), legend="messages"),
            empty=NO_RECEIVER,
            unit="short",
            width=3,
            thresholds=looks.steps(looks.GREEN, (10, looks.AMBER), (100, looks.RED)),
        ),
        stat(
            "Configuration",
            "Whether the configuration file on the disk is in force. differs: it is refused, or part of it needs a "
            "restart.",
            Target(expr=differs, legend="configuration"),
            empty=NO_RECEIVER,
            unit="none",
            width=3,
            thresholds=looks.NONE_IS_GOOD,
            mappings=looks.words(_0=("in force", looks.GREEN), _1=("differs", looks.AMBER)),
        ),
        stat(
            "Version",
            "The running versions. Two at once: an update is in progress.",
            Target(expr=versions, legend="{{version}}", instant=True),
            empty=NO_RECEIVER,
            unit="none",
            width=3,
            names=True,
        ),
    )


def _sources() -> Panel:
    return states(
        "Sources",
        "Whether each configured source answered in the last step. Without some of them pools do not shrink.",
        Target(expr=f"max by (cluster, source) ({of('gpu_autoscaler_source_up')})", legend="{{source}} {{cluster}}"),
        empty=NO_RECEIVER,
        mappings=looks.words(_1=("up", looks.GREEN), _0=("down", looks.RED)),
        width=8,
    )


def _holds() -> Panel:
    nodes = of("gpu_autoscaler_pool_nodes", POOL, state="required")
    most = of("gpu_autoscaler_pool_nodes_max", POOL)
    pool, scope = "cluster, pool", "cluster, scope, name"
    spent, limit = (f"max by ({scope}) ({of(f'gpu_autoscaler_budget_{what}_usd')})" for what in ("spent", "limit"))
    stop = f"max by (cluster) ({of('gpu_autoscaler_budget_threshold_ratio', stage='stop')})"
    line = f"{limit} * on (cluster) group_left () {stop}"
    steps = happened("gpu_autoscaler_loop_steps_total", by="cluster, instance, pod")
    writers = f"count by (cluster) ({steps} > 0) or 0 * max by (cluster) ({STEPPED})"
    oldest = f"max_over_time({of('gpu_autoscaler_action_open_seconds', POOL)}[$__rate_interval])"
    return states(
        "Invariants, as seen from outside",
        "Pools above their maximum: also after a maximum was lowered below the count, or another writer raised "
        "the count. Budgets above the stop line: running nodes keep costing. Two that step: more than one process of "
        "a cluster writes, except in the minutes of a takeover.",
        Target(
            expr=f"max(max by ({pool}) ({nodes}) > bool on ({pool}) max by ({pool}) ({most}))",
            legend="pools above their maximum",
        ),
        Target(
            expr=or_zero(f"max({spent} > bool on ({scope}) ({line}))", STEPPED),
            legend="budgets above the stop line",
        ),
        Target(expr=f"max(({writers}) > bool 1)", legend="two that step"),
        Target(expr=f"max({oldest} > bool 3600)", legend="an action open for an hour"),
        empty=NO_RECEIVER,
        mappings=looks.words(_0=("holds", looks.GREEN), _1=("look", looks.RED)),
        width=8,
    )


def _steps() -> Panel:
    return timeseries(
        "Steps and errors",
        "Completed steps, failed steps, and failed parts of steps that continued. The log of the failed step has "
        "the error.",
        Target(expr=happened("gpu_autoscaler_loop_steps_total"), legend="steps"),
        Target(expr=happened("gpu_autoscaler_loop_errors_total"), legend="failed"),
        Target(expr=happened("gpu_autoscaler_step_part_failures_total"), legend="parts failed"),
        empty=NO_RECEIVER,
        unit="short",
        bars=True,
        width=8,
        overrides=[
            looks.coloured("steps", looks.BLUE),
            looks.coloured("failed", looks.RED),
            looks.coloured("parts failed", looks.YELLOW),
        ],
    )


def _outbox() -> Panel:
    return timeseries(
        "Outbox",
        "Undelivered messages (left), and the age of the oldest (right). An age that rises: a destination is down.",
        Target(expr=summed("gpu_autoscaler_notices_pending"), legend="pending"),
        Target(expr=f"max({of('gpu_autoscaler_notices_oldest_seconds')})", legend="age of the oldest"),
        empty=NO_RECEIVER,
        unit="short",
        width=8,
        height=7,
        overrides=[looks.column("age of the oldest", unit="s", custom__axisPlacement="right")],
    )


def _civo() -> Panel:
    calls = "gpu_autoscaler_civo_requests_total"
    return timeseries(
        "Calls to Civo by outcome",
        "Calls to Civo's API by method. try_later: no response, or a temporary error. wont_work: rejected "
        "permanently. Look for outcomes other than ok.",
        Target(
            expr=or_zero(f"{happened(calls, by='method, outcome')} > 0", STEPPED, "outcome"),
            legend="{{method}} {{outcome}}",
        ),
        empty=NO_RECEIVER,
        unit="short",
        bars=True,
        stacked=True,
        width=8,
        height=7,
    )


def _answers() -> Panel:
    answers = "gpu_autoscaler_webhook_requests_total"
    return timeseries(
        "Webhook answers",
        "Responses by HTTP status. Anything but 202 is a delivery that Alertmanager has to retry, or that is not "
        "delivery.",
        Target(expr=or_zero(f"{happened(answers, by='code')} > 0", STEPPED, "code"), legend="{{code}}"),
        empty=NO_RECEIVER,
        unit="short",
        bars=True,
        stacked=True,
        width=8,
        height=7,
        overrides=[looks.coloured("202", looks.GREEN)],
    )


def _work() -> tuple[Panel, ...]:
    webhook, step = "gpu_autoscaler_webhook_seconds", "gpu_autoscaler_loop_step_seconds"
    stored = "gpu_autoscaler_alerts_total"
    wakes = "gpu_autoscaler_watch_wakes_total"
    return (
        timeseries(
            "Time of a step",
            "Seconds that a step of the loop takes. A step longer than the tick delays every decision.",
            Target(expr=quantile(0.5, step), legend="p50"),
            Target(expr=quantile(0.95, step), legend="p95"),
            empty="No step",
            unit="s",
            spanned=True,
            width=8,
        ),
        heatmap(
            "Steps by duration",
            "Number of steps by duration. Look for a second band of slow steps.",
            Target(expr=happened(f"{step}_bucket", by="le"), legend="{{le}}", heatmap=True),
            empty=NO_RECEIVER,
            unit="s",
            width=8,
        ),
        timeseries(
            "Steps started by the watch",
            "Times that a waiting pod woke the loop before its tick was over. None although pods wait: the watch does "
            "not work.",
            Target(expr=happened(wakes), legend="woken"),
            empty=NO_RECEIVER,
            unit="short",
            bars=True,
            width=8,
        ),
        timeseries(
            "Time to answer a webhook",
            "Seconds until a delivery is stored and answered. Look for whole seconds: the store is slow.",
            *(Target(expr=quantile(share, webhook), legend=f"p{share * 100:.0f}") for share in (0.5, 0.95, 0.99)),
            empty="No delivery arrived",
            unit="s",
            spanned=True,
            width=8,
        ),
        timeseries(
            "Stored alerts, by action",
            "Alerts in the deliveries, by their label action. No heartbeat: the alert pipeline is broken.",
            Target(
                expr=or_zero(f"{kept(stored, own='action', by='action')} > 0", STEPPED, "action"),
                legend="{{action}}",
            ),
            empty=NO_RECEIVER,
            unit="short",
            bars=True,
            stacked=True,
            width=8,
        ),
        timeseries(
            "Stored deliveries",
            "Deliveries to the webhook that were stored. None for minutes: see the age of the heartbeat.",
            Target(expr=kept("gpu_autoscaler_deliveries_total"), legend="deliveries"),
            empty=NO_RECEIVER,
            unit="short",
            bars=True,
            width=8,
        ),
    )


def _outside() -> tuple[Panel, ...]:
    ended = f"{kept('gpu_autoscaler_notices_total', own='state', by='state')} > 0"
    refused = kept("gpu_autoscaler_messages_total", own="destination", by="destination", outcome="failed")
    charged = f"max by (cluster, size) ({of('gpu_autoscaler_charges_difference_seconds')})"
    unpriced = f"max by (cluster, code) ({of('gpu_autoscaler_charges_unpriced_seconds')})"
    return (
        timeseries(
            "Time of Civo's answers",
            "p95 of the seconds until Civo answers, by method. Slow answers delay changes of nodes.",
            Target(expr=quantile(0.95, "gpu_autoscaler_civo_request_seconds", by="method"), legend="{{method}} p95"),
            empty="No call to Civo",
            unit="s",
            spanned=True,
            width=12,
        ),
        timeseries(
            "Messages delivered and dropped",
            "Messages to people: delivered, dropped after every attempt failed, and attempts that a destination "
            "refused. Dropped messages are lost: check the destinations.",
            Target(expr=or_zero(ended, STEPPED, "state"), legend="{{state}}"),
            Target(expr=f"{refused} > 0", legend="refused by {{destination}}"),
            empty=NO_RECEIVER,
            unit="short",
            bars=True,
            stacked=True,
            width=12,
            overrides=[looks.coloured("sent", looks.GREEN), looks.coloured("failed", looks.RED)],
        ),
        timeseries(
            "Charges against the ledger",
            "Civo's charges of this month minus the ledger, in node time, by size. Far from 0: nodes that this ledger "
            "does not know, or a different way of billing.",
            Target(expr=or_zero(f"round({charged})", CHARGES, "size"), legend="{{size}} {{cluster}}"),
            empty="Civo's charges were not read",
            unit="s",
            least=None,
            width=8,
        ),
        timeseries(
            "Charges without a price",
            "Time that Civo charged this month under codes without a price in the configuration. Above 0: add the "
            "price, because the spend is unknown without it.",
            Target(
                expr=or_zero(unpriced, CHARGES, "code"),
                legend="{{code}} {{cluster}}",
            ),
            empty="Civo's charges were not read",
            unit="s",
            width=8,
        ),
        timeseries(
            "Age of Civo's charges",
            "Time since Civo last reported its charges. A line that only rises: no new charges arrive.",
            Target(expr=f"max(min by (cluster) ({CHARGES}))", legend="age"),
            empty="Civo's charges were not read",
            unit="s",
            width=8,
        ),
    )


def _ages() -> tuple[Panel, ...]:
    listed = of("gpu_autoscaler_cache_age_seconds")
    return (
        states(
            "Watch of pods",
            "Whether the watch of pods works. While it is down, the loop sees waiting pods at its next tick.",
            Target(expr=f"max by (cluster) ({of('gpu_autoscaler_watch_up')})", legend="watch {{cluster}}"),
            empty="The watch is off, or no process leads",
            mappings=looks.words(_1=("up", looks.GREEN), _0=("down", looks.RED)),
            width=8,
        ),
        timeseries(
            "Age of watched lists",
            "Time since the API server last confirmed each list that a watch keeps. Above 30 s a step "
            "lists it itself, as is usual for lists that seldom change. A line that only rises: that watch is stuck.",
            Target(expr=f"min by (cluster, resource) ({listed})", legend="{{resource}} {{cluster}}"),
            empty="The watch is off",
            unit="s",
            width=8,
        ),
        timeseries(
            "Age of what pages show, and of the last delivery",
            "Time since the state that pages and API show was published, and since the last stored delivery. A line "
            "that only rises: steps fail, or Alertmanager does not reach the webhook.",
            Target(expr=f"max(min by (cluster) ({of('gpu_autoscaler_snapshot_age_seconds')}))", legend="pages"),
            Target(expr=_age("gpu_autoscaler_last_delivery_timestamp_seconds"), legend="last delivery"),
            empty=NO_RECEIVER,
            unit="s",
            width=8,
        ),
    )


def _actions() -> tuple[Panel, ...]:
    def ended(outcome: str) -> str:
        actions = of(ACTIONS, POOL, outcome=outcome)
        return told(f"sum by (cluster, pool) (max by (cluster, pool, kind) ({actions}))")

    columns = {
        "Failed": ended("failed"),
        "Superseded": ended("superseded"),
        "Withdrawn": ended("withdrawn"),
        "Confirmed": ended("confirmed"),
        "Changed by others": told(f"max by (cluster, pool) ({of('gpu_autoscaler_pool_drifts_total', POOL)})"),
        "Backs off": told(f"max by (cluster, pool) ({of('gpu_autoscaler_pool_backoff', POOL)})"),
    }
    return (
        timeseries(
            "Age of open actions",
            "How long a pool's action has been open; 0 if none is. A growth ends when Civo shows the new count, a "
            "removal when its nodes are gone. Look for lines that rise past the provision timeout.",
            Target(
                expr=told(f"max by (cluster, pool) ({of('gpu_autoscaler_action_open_seconds', POOL)})"),
                legend="{{pool_name}} {{cluster}}",
            ),
            empty=NO_RECEIVER,
            unit="s",
            links=[links.POOL_PAGE],
        ),
        table(
            "Refused, superseded and changed by others",
            "Since the ledger began, by pool: actions that Civo refused, actions superseded by another writer, "
            "actions no longer wanted, and counts changed by another writer. The autoscaler should be the only writer.",
            *(Target(expr=expr, table=True) for expr in columns.values()),
            empty=NO_RECEIVER,
            unit="short",
            columns={
                "pool_name": "Pool",
                "cluster": "Cluster",
                **values(columns),
            },
            overrides=[links.POOL_COLUMN],
        ),
    )
