"""The receiver itself: webhooks, steps, Civo's API, and invariants."""

from tools.dashboards import annotations, links, looks
from tools.dashboards.grids import heatmap, states
from tools.dashboards.model import Dashboard, Panel, Row, Target
from tools.dashboards.panels import stat, table, timeseries
from tools.dashboards.promql import POOL, happened, increase, kept, of, quantile, told
from tools.dashboards.variables import pools

ACTIONS = "gpu_autoscaler_actions_total"
ENDED = 'state=~"sent|failed"'
SECONDS = looks.steps(looks.GREEN, (120, looks.YELLOW), (300, looks.RED))
UID = "gpu-autoscaler-receiver"


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        uid=UID,
        title="GPU autoscaler / Receiver",
        description="The autoscaler's own health: webhooks, steps, sources, Civo's API, messages, invariants.",
        rows=links.with_runbooks(
            Row(title="Now", panels=_now()),
            Row(title="Webhooks and steps", panels=_work()),
            Row(title="Civo, sources and messages", panels=_outside()),
            Row(title="Invariants", panels=_invariants()),
        ),
        annotations=annotations.EVERY,
        variables=(pools(), *links.VARIABLES),
        links=links.of_dashboard(UID, "/", "Status page"),
    )


def _age(metric: str) -> str:
    return f"time() - max({of(metric)})"


def _now() -> tuple[Panel, ...]:
    return (
        stat(
            "Mode",
            "act: it scales. observe: it only reports what it would do. A new installation observes.",
            Target(expr=f"max({of('gpu_autoscaler_mode', mode='act')})", legend="mode"),
            unit="none",
            spark=False,
            thresholds=looks.steps(looks.YELLOW, (1, looks.GREEN)),
            mappings=looks.words(_1=("act", looks.GREEN), _0=("observe", looks.YELLOW)),
        ),
        stat(
            "Age of the last step",
            "Seconds since the last step that served the pools. Normally at most a tick plus a step.",
            Target(expr=f"max({of('gpu_autoscaler_step_age_seconds')})", legend="age"),
            unit="s",
            thresholds=SECONDS,
        ),
        stat(
            "Age of the heartbeat",
            "Seconds since GpuAutoscalerHeartbeat last arrived through Prometheus and Alertmanager. Pools do not "
            "shrink while it is missing.",
            Target(expr=_age("gpu_autoscaler_last_heartbeat_timestamp_seconds"), legend="age"),
            unit="s",
            thresholds=looks.steps(looks.GREEN, (300, looks.YELLOW), (600, looks.RED)),
        ),
        stat(
            "Failed steps in an hour",
            "Failed steps of all processes. Should be 0.",
            Target(expr=f"sum(increase({of('gpu_autoscaler_loop_errors_total')}[1h]))", legend="errors"),
            unit="short",
            decimals=0,
            thresholds=looks.NONE_IS_GOOD,
        ),
        stat(
            "Messages pending",
            "Undelivered messages to people. If it stays up, see the panel Outbox.",
            Target(expr=f"max({of('gpu_autoscaler_notices', state='pending')})", legend="messages"),
            unit="short",
            thresholds=looks.steps(looks.GREEN, (10, looks.YELLOW), (100, looks.RED)),
        ),
        stat(
            "Version",
            "The running versions. Two at once: an update is in progress.",
            Target(expr=f"group by (version) ({of('gpu_autoscaler_build_info')})", legend="{{version}}", instant=True),
            unit="none",
            spark=False,
            names=True,
        ),
    )


def _work() -> tuple[Panel, ...]:
    webhook, step = "gpu_autoscaler_webhook_seconds", "gpu_autoscaler_loop_step_seconds"
    return (
        timeseries(
            "Webhook answers",
            "Responses by HTTP status. Anything but 202 is a delivery that Alertmanager has to retry, or that is not "
            "delivery.",
            Target(expr=f"{happened('gpu_autoscaler_webhook_requests_total', by='code')} > 0", legend="{{code}}"),
            unit="short",
            bars=True,
            stacked=True,
            width=8,
            overrides=[looks.coloured("202", looks.GREEN)],
        ),
        timeseries(
            "Time to answer a webhook",
            "Seconds until a delivery is stored and answered. Look for whole seconds: the store is slow.",
            Target(expr=quantile(0.5, webhook), legend="p50"),
            Target(expr=quantile(0.95, webhook), legend="p95"),
            Target(expr=quantile(0.99, webhook), legend="p99"),
            unit="s",
            spanned=True,
            width=8,
        ),
        timeseries(
            "Stored alerts, by action",
            "Alerts in the deliveries, by their label action. No heartbeat: the alert pipeline is broken.",
            Target(expr=f"{kept('gpu_autoscaler_alerts_total', own='action', by='action')} > 0", legend="{{action}}"),
            unit="short",
            bars=True,
            stacked=True,
            width=8,
        ),
        timeseries(
            "Time of a step",
            "Seconds that a step of the loop takes. A step longer than the tick delays every decision.",
            Target(expr=quantile(0.5, step), legend="p50"),
            Target(expr=quantile(0.95, step), legend="p95"),
            unit="s",
            spanned=True,
            width=8,
        ),
        heatmap(
            "Steps by duration",
            "Number of steps by duration. Look for a second band of slow steps.",
            Target(expr=increase(f"{step}_bucket", by="le"), legend="{{le}}", heatmap=True),
            unit="s",
            width=8,
        ),
        timeseries(
            "Steps and errors",
            "Completed steps, failed steps, and failed parts of steps that continued. The log of the failed step has "
            "the error.",
            Target(expr=happened("gpu_autoscaler_loop_steps_total"), legend="steps"),
            Target(expr=happened("gpu_autoscaler_loop_errors_total"), legend="failed"),
            Target(expr=happened("gpu_autoscaler_step_part_failures_total"), legend="parts failed"),
            unit="short",
            bars=True,
            width=8,
            overrides=[
                looks.coloured("steps", looks.BLUE),
                looks.coloured("failed", looks.RED),
                looks.coloured("parts failed", looks.YELLOW),
            ],
        ),
    )


def _outside() -> tuple[Panel, ...]:
    calls = "gpu_autoscaler_civo_requests_total"
    return (
        timeseries(
            "Calls to Civo by outcome",
            "Calls to Civo's API by method. try_later: no response, or a temporary error. wont_work: rejected "
            "permanently. Look for outcomes other than ok.",
            Target(expr=f"{happened(calls, by='method, outcome')} > 0", legend="{{method}} {{outcome}}"),
            unit="short",
            bars=True,
            stacked=True,
            width=8,
        ),
        timeseries(
            "Time of Civo's answers",
            "p95 of the seconds until Civo answers, by method. Slow answers delay changes of nodes.",
            Target(expr=quantile(0.95, "gpu_autoscaler_civo_request_seconds", by="method"), legend="{{method}} p95"),
            unit="s",
            spanned=True,
            width=8,
        ),
        states(
            "Sources",
            "Whether each configured source answered in the last step. Without some of them pools do not shrink.",
            Target(expr=f"max by (source) ({of('gpu_autoscaler_source_up')})", legend="{{source}}"),
            mappings=looks.words(_1=("up", looks.GREEN), _0=("down", looks.RED)),
            width=8,
        ),
        timeseries(
            "Messages delivered and dropped",
            "Messages to people: delivered, dropped after every attempt failed, and attempts that a destination "
            "refused. Dropped messages are lost: check the destinations.",
            Target(
                expr=f"round(max by (state) (delta({of('gpu_autoscaler_notices', ENDED)}[$__rate_interval]))) > 0",
                legend="{{state}}",
            ),
            Target(
                expr=f"round(max by (destination) (increase({of('gpu_autoscaler_messages_total', outcome='failed')}"
                "[$__rate_interval]))) > 0",
                legend="refused by {{destination}}",
            ),
            unit="short",
            bars=True,
            stacked=True,
            width=8,
            overrides=[looks.coloured("sent", looks.GREEN), looks.coloured("failed", looks.RED)],
        ),
        timeseries(
            "Outbox",
            "Undelivered messages (left), and the age of the oldest (right). An age that rises: a destination is down.",
            Target(expr=f"max({of('gpu_autoscaler_notices', state='pending')})", legend="pending"),
            Target(expr=f"max({of('gpu_autoscaler_notices_oldest_seconds')})", legend="age of the oldest"),
            unit="short",
            width=8,
            overrides=[looks.column("age of the oldest", unit="s", custom__axisPlacement="right")],
        ),
        timeseries(
            "Charges against the ledger",
            "Civo's charges of this month minus the ledger, in node time, by size. Far from 0: nodes that this ledger "
            "does not know, or a different way of billing.",
            Target(expr=f"round(max by (size) ({of('gpu_autoscaler_charges_difference_seconds')}))", legend="{{size}}"),
            unit="s",
            least=None,
            width=8,
        ),
    )


def _invariants() -> tuple[Panel, ...]:
    nodes = of("gpu_autoscaler_pool_nodes", POOL, state="required")
    most = of("gpu_autoscaler_pool_nodes_max", POOL)
    scope = "max by (scope, name)"
    spent, limit = (f"{scope} ({of(f'gpu_autoscaler_budget_{what}_usd')})" for what in ("spent", "limit"))
    stop = f"scalar(max({of('gpu_autoscaler_budget_threshold_ratio', stage='stop')}))"
    writers = f"(count({increase('gpu_autoscaler_loop_steps_total', by='instance, pod')} > 0) or vector(0))"
    oldest = f"max_over_time({of('gpu_autoscaler_action_open_seconds', POOL)}[$__rate_interval])"
    return (
        states(
            "Invariants, as seen from outside",
            "Pools above their maximum: also after a maximum was lowered below the count, or another writer raised "
            "the count. Budgets above the stop line: running nodes keep costing. Two that step: more than one process "
            "writes, except in the minutes of a takeover.",
            Target(
                expr=f"max(max by (pool) ({nodes}) > bool on (pool) max by (pool) ({most}))",
                legend="pools above their maximum",
            ),
            Target(
                expr=f"max({spent} > bool on (scope, name) {stop} * {limit})",
                legend="budgets above the stop line",
            ),
            Target(expr=f"{writers} > bool 1", legend="two that step"),
            Target(
                expr=f"max({oldest} > bool 3600)",
                legend="an action open for an hour",
            ),
            mappings=looks.words(_0=("holds", looks.GREEN), _1=("look", looks.RED)),
            width=12,
        ),
        timeseries(
            "Age of open actions",
            "How long a pool's action has been open; 0 if none is. A growth ends when Civo shows the new count, a "
            "removal when its nodes are gone. Look for lines that rise past the provision timeout.",
            Target(
                expr=told(f"max by (pool) ({of('gpu_autoscaler_action_open_seconds', POOL)})"), legend="{{pool_name}}"
            ),
            unit="s",
            links=[links.POOL_PAGE],
        ),
        table(
            "Refused, superseded and changed by others",
            "Since the ledger began, by pool: actions that Civo refused, actions superseded by another writer, "
            "actions no longer wanted, and counts changed by another writer. The autoscaler should be the only writer.",
            *(
                Target(
                    expr=told(f"sum by (pool) (max by (pool, kind) ({of(ACTIONS, POOL, outcome=outcome)}))"),
                    table=True,
                )
                for outcome in ("failed", "superseded", "withdrawn", "confirmed")
            ),
            Target(expr=told(f"max by (pool) ({of('gpu_autoscaler_pool_drifts_total', POOL)})"), table=True),
            Target(expr=told(f"max by (pool) ({of('gpu_autoscaler_pool_backoff', POOL)})"), table=True),
            unit="short",
            columns={
                "pool_name": "Pool",
                "Value #A": "Failed",
                "Value #B": "Superseded",
                "Value #C": "Withdrawn",
                "Value #D": "Confirmed",
                "Value #E": "Changed by others",
                "Value #F": "Backs off",
            },
            overrides=[links.POOL_COLUMN],
        ),
        table(
            "What held the last decision",
            "The guardrails that reduced or blocked each pool's last decision. For the reason see the pool's page, "
            "for each guardrail docs/guardrails.md.",
            Target(expr=told(f"max by (pool, rule) ({of('gpu_autoscaler_pool_held_by', POOL)})"), table=True),
            unit="short",
            columns={"pool_name": "Pool", "rule": "Rule"},
            overrides=[links.POOL_COLUMN],
        ),
    )
