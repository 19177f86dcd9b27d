"""Cost: spend and forecast against the budget, owners, idle cost, and savings.

Several clusters are added up; what belongs to one (a budget, a workload) keeps the label `cluster`.
"""

from tools.dashboards import annotations, links, looks
from tools.dashboards.model import Dashboard, Panel, Row, Target
from tools.dashboards.panels import bargauge, gauge, stat, table, timeseries, values
from tools.dashboards.promql import (
    LISTED,
    NAMESPACE,
    NO_PODS,
    NO_RECEIVER,
    STEPPED,
    by_pool,
    of,
    or_unknown,
    or_zero,
    summed,
)
from tools.dashboards.variables import namespaces, pools

USD = "currencyUSD"
CLUSTER = 'scope="cluster"'
WORKLOAD_NAMESPACE = 'workload_namespace=~"$namespace"'
COSTS_PAGE = links.opened("Costs in the autoscaler", "${autoscaler_url}/costs")
NO_FORECAST = "Known after a day of costs"
NO_BUDGET = "No budget is set"
NO_PRICES = "No prices from the receiver"
# By label: what the receiver's family is called, and the panel.
OWNERS = {
    "project": ("cost_project_usd", "By project"),
    "environment": ("cost_environment_usd", "By environment"),
    "workload_class": ("cost_workload_class_usd", "By class of work"),
    "cost_center": ("cost_center_usd", "By cost center"),
    "priority_class": ("cost_priority_class_usd", "By priority class"),
}
UID = "gpu-autoscaler-cost"


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        uid=UID,
        title="GPU autoscaler / Cost",
        description="GPU spend and forecast against the budget, by team, workload and kind of GPU; idle cost; savings.",
        rows=links.with_runbooks(
            Row(title="This month", panels=(*_month(), *_budget(), *_first())),
            Row(title="Budgets and pools", panels=_budgets(), folded=True),
            Row(title="By team, namespace and workload", panels=_whose(), folded=True),
            Row(title="By other owners and kinds", panels=_kinds(), folded=True),
            Row(title="Idle and saved", panels=_idle(), folded=True),
        ),
        annotations=annotations.EVERY,
        variables=(pools(), namespaces(), *links.VARIABLES),
        links=links.of_dashboard(UID, "/costs", "Costs page"),
        span="now-24h",
        refresh="1m",
    )


def _budget_usd(amount: str) -> str:
    """An amount of the whole cluster's budget, of all clusters."""
    return summed(f"gpu_autoscaler_budget_{amount}_usd", CLUSTER)


def _of_scope(metric: str) -> str:
    return f"max by (cluster, scope, name) ({of(metric)})"


def _held_by(family: str, label: str, *matchers: str) -> str:
    """What this month's workloads held, by the owner in *label*."""
    usd = summed(f"gpu_autoscaler_{family}", *matchers, own=label, by=label)
    return or_zero(usd, STEPPED, label)


def _month() -> tuple[Panel, ...]:
    unallocated = summed("gpu_autoscaler_cost_usd", own="gpu_kind", part="unallocated")
    unused = summed("gpu_autoscaler_cost_team_idle_usd", own="team")
    always_on = (summed(f"gpu_autoscaler_always_on_{what}usd") for what in ("", "spent_"))
    return (
        stat(
            "Spent",
            "USD of this month by the receiver's ledger: all started paid units, idle or not. Compare with Budget.",
            Target(expr=_budget_usd("spent"), legend="spent"),
            empty="Spend unknown",
            unit=USD,
            links=[COSTS_PAGE],
        ),
        stat(
            "Budget",
            "The month's allowance in USD for the whole cluster. Of several clusters: the sum of those that have one.",
            Target(expr=_budget_usd("limit"), legend="budget"),
            empty=NO_BUDGET,
            unit=USD,
        ),
        stat(
            "Forecast",
            "USD at the month's end if the average of the month, as far as the ledger saw it, continues. Above Budget: "
            "growth will be held before the month ends. A cluster has none in its first day.",
            Target(expr=_budget_usd("forecast"), legend="forecast"),
            empty=NO_FORECAST,
            unit=USD,
        ),
        stat(
            "Cost per hour",
            "USD per hour of all existing nodes. It should fall when demand falls.",
            Target(expr=summed("cluster:gpu_spend_usd_per_hour:sum"), legend="per hour"),
            empty="Prices or nodes unknown",
            unit=USD,
            decimals=2,
        ),
        stat(
            "Idle this month",
            "USD of this month for nodes without GPU pods, and for GPUs that pods held but did not use. Compare with "
            "Spent.",
            Target(expr=f"({or_zero(unallocated, STEPPED)}) + ({unused} or vector(0))", legend="idle"),
            empty=NO_RECEIVER,
            unit=USD,
            thresholds=looks.PLAIN,
        ),
        stat(
            "Saved against always-on",
            "Additional USD that this month would have cost with every pool at its peak for the observed time. The "
            "higher, the more scaling saves.",
            Target(expr=" - ".join(always_on), legend="saved"),
            empty=NO_RECEIVER,
            unit=USD,
            thresholds=looks.steps(looks.RED, (0, looks.GREEN)),
        ),
    )


def _budget() -> tuple[Panel, ...]:
    limit = f"max by (cluster) ({of('gpu_autoscaler_budget_limit_usd', CLUSTER)})"
    lines = f"max by (cluster, stage) ({of('gpu_autoscaler_budget_threshold_ratio')})"
    return (
        timeseries(
            "Spend and forecast against the budget",
            "The cluster's spend, additional reservations for growth, the forecast, and the lines at which the "
            "receiver warns, holds growth and stops; of several clusters the sums. Look for a forecast above a line.",
            Target(expr=_budget_usd("spent"), legend="spent"),
            Target(expr=f"{_budget_usd('spent')} + {_budget_usd('reserved')}", legend="spent and reserved"),
            Target(expr=_budget_usd("forecast"), legend="forecast"),
            Target(expr=f"sum by (stage) ({lines} * on (cluster) group_left () {limit})", legend="line: {{stage}}"),
            empty="Spend unknown, and no budget",
            unit=USD,
            width=12,
            height=9,
            overrides=[
                looks.coloured("spent", looks.BLUE),
                looks.coloured("spent and reserved", "light-blue"),
                looks.line("^forecast$", looks.PURPLE),
                looks.line("^line: warn$", looks.YELLOW),
                looks.line("^line: hold$", looks.ORANGE),
                looks.line("^line: stop$", looks.RED),
            ],
        ),
        gauge(
            "Budgets used",
            "The used part of each configured budget. The colours change at the default lines: 50 % warns, 80 % holds "
            "growth, 100 % stops.",
            Target(expr=_of_scope("scope_name:gpu_budget_used:ratio"), legend="{{scope}} {{name}} {{cluster}}"),
            empty=NO_BUDGET,
            unit="percentunit",
            thresholds=looks.BUDGET,
            width=6,
            height=9,
        ),
        gauge(
            "Budgets by forecast",
            "The forecast of each budget relative to it. Above 100 %: it will not last the month.",
            Target(expr=_of_scope("scope_name:gpu_budget_forecast:ratio"), legend="{{scope}} {{name}} {{cluster}}"),
            empty=NO_FORECAST,
            unit="percentunit",
            thresholds=looks.BUDGET,
            width=6,
            height=9,
            most=1.5,
        ),
    )


def _first() -> tuple[Panel, ...]:
    parts = summed("gpu_autoscaler_cost_usd", own="part, gpu_kind", by="part")
    return (
        bargauge(
            "By team",
            "USD of the nodes and GPUs that a team's workloads held this month; unlabelled: pods without the team's "
            "label. A long unlabelled bar: add the label to those pods.",
            Target(expr=f"sort_desc({_held_by('cost_team_usd', 'team')})", legend="{{team}}", instant=True),
            empty=NO_RECEIVER,
            unit=USD,
            width=8,
            height=6,
            links=[COSTS_PAGE],
        ),
        bargauge(
            "By use",
            "USD of this month: held by workloads or not. unallocated: no pod held the GPU. seeded: spent before the "
            "ledger began.",
            Target(expr=f"sort_desc({or_zero(parts, STEPPED, 'part')})", legend="{{part}}", instant=True),
            empty=NO_RECEIVER,
            unit=USD,
            width=8,
            height=6,
        ),
        timeseries(
            "Cost per hour by pool",
            "USD per hour of all existing nodes, idle or not. Look for pools that cost money while nothing runs.",
            Target(expr=by_pool("pool:gpu_spend_usd_per_hour:sum"), legend="{{pool_name}} {{cluster}}"),
            empty=NO_PRICES,
            unit=USD,
            decimals=2,
            width=8,
            height=6,
            stacked=True,
            steps=True,
            links=[links.POOL_PAGE],
        ),
    )


def _budgets() -> tuple[Panel, ...]:
    columns = {"Budget": "limit", "Spent": "spent", "Reserved": "reserved", "Forecast": "forecast"}
    return (
        table(
            "Budgets",
            "All configured budgets: of the account, the cluster, pools and teams. Spent and Reserved together near "
            "the Budget: growth is about to be held. Burn is the average of the month per hour.",
            *(Target(expr=_of_scope(f"gpu_autoscaler_budget_{amount}_usd"), table=True) for amount in columns.values()),
            Target(expr=_of_scope("gpu_autoscaler_budget_burn_usd_per_hour"), table=True),
            empty=NO_BUDGET,
            unit=USD,
            columns={
                "scope": "Scope",
                "name": "Name",
                "cluster": "Cluster",
                **values((*columns, "Burn per hour")),
            },
            overrides=[looks.column("Burn per hour", decimals=2)],
        ),
        timeseries(
            "Burn and cost per hour",
            "USD per hour: the average of this month, with which the forecast continues, and what all nodes cost now. "
            "Now above the average: the forecast will rise.",
            Target(expr=summed("gpu_autoscaler_budget_burn_usd_per_hour", CLUSTER), legend="burn of the month"),
            Target(expr=summed("cluster:gpu_spend_usd_per_hour:sum"), legend="now"),
            empty=NO_PRICES,
            unit=USD,
            decimals=2,
            overrides=[looks.line("^burn of the month$", looks.GREY), looks.coloured("now", looks.BLUE)],
        ),
    )


def _whose() -> tuple[Panel, ...]:
    owned = "workload_namespace, workload"
    usd = f"max by (cluster, {owned}) ({of('gpu_autoscaler_cost_workload_usd', WORKLOAD_NAMESPACE)})"
    working = "namespace, workload_kind, workload"
    idle = f"max by (cluster, {working}) ({of('namespace_workload:gpu_idle_usd_per_hour:sum', NAMESPACE)})"
    spaces = _held_by("cost_namespace_usd", "workload_namespace", WORKLOAD_NAMESPACE)
    return (
        table(
            "Top consumers",
            "The 20 most expensive workloads of this month, running or ended. (other): workloads beyond the 50 most "
            "expensive ones.",
            Target(expr=or_unknown(f"topk(20, {usd})", STEPPED, "workload", "the receiver"), table=True),
            empty="No workload held a GPU this month",
            unit=USD,
            sort="This month",
            columns={
                "workload_namespace": "Namespace",
                "workload": "Workload",
                "cluster": "Cluster",
                "Value": "This month",
            },
            overrides=[looks.column("This month", decimals=2)],
        ),
        table(
            "Workloads by idle cost",
            "USD per hour of allocated GPUs that have been idle for an hour. Empty: none is.",
            Target(expr=or_unknown(f"topk(20, {idle})", LISTED, "workload", "kube-state-metrics"), table=True),
            empty="No allocated GPU is known to be idle",
            unit=USD,
            width=12,
            sort="Idle per hour",
            columns={
                "namespace": "Namespace",
                "workload_kind": "Kind",
                "workload": "Workload",
                "cluster": "Cluster",
                "Value": "Idle per hour",
            },
            overrides=[looks.column("Idle per hour", decimals=2)],
        ),
        timeseries(
            "Month's cost by team",
            "Cumulative cost of each team this month; it starts at 0 on the first. The steepest line spends fastest.",
            Target(expr=_held_by("cost_team_usd", "team"), legend="{{team}}"),
            empty=NO_RECEIVER,
            unit=USD,
            stacked=True,
        ),
        timeseries(
            "Month's cost by namespace",
            "Cumulative cost of each selected namespace this month. The steepest line spends fastest.",
            Target(expr=spaces, legend="{{workload_namespace}}"),
            empty=NO_RECEIVER,
            unit=USD,
            stacked=True,
        ),
    )


def _kinds() -> tuple[Panel, ...]:
    kinds = summed("gpu_autoscaler_cost_usd", 'gpu_kind!=""', own="part, gpu_kind", by="gpu_kind")
    return (
        bargauge(
            "By kind of GPU",
            "USD of this month by kind of GPU, held or not; excludes spend from before the ledger began. Compare "
            "kinds that do the same work.",
            Target(expr=f"sort_desc({or_zero(kinds, STEPPED, 'gpu_kind')})", legend="{{gpu_kind}}", instant=True),
            empty=NO_RECEIVER,
            unit=USD,
            width=8,
        ),
        *(
            bargauge(
                title,
                "USD of the nodes and GPUs that workloads held this month; unlabelled: pods without that label, none: "
                "without that class. A long bar of these: label the pods.",
                Target(expr=f"sort_desc({_held_by(family, label)})", legend=f"{{{{{label}}}}}", instant=True),
                empty=NO_RECEIVER,
                unit=USD,
                width=8,
            )
            for label, (family, title) in OWNERS.items()
        ),
    )


def _idle() -> tuple[Panel, ...]:
    unused = or_zero(summed("gpu_autoscaler_cost_team_idle_usd", own="team", by="team"), STEPPED, "team")
    held, measured, idle = (
        summed("gpu_autoscaler_team_gpu_seconds", own="team", by="team", state=state)
        for state in ("held", "measured", "idle")
    )
    return (
        timeseries(
            "Idle cost per hour by pool",
            "USD per hour of nodes without GPU pods and of allocated but idle GPUs. Look for lines that do not return "
            "to 0.",
            Target(
                expr=or_zero(by_pool("pool:gpu_idle_usd_per_hour:sum"), LISTED, "pool_name"),
                legend="{{pool_name}} {{cluster}}",
            ),
            empty=NO_PODS,
            unit=USD,
            decimals=2,
            stacked=True,
            steps=True,
            width=8,
            links=[links.POOL_PAGE],
        ),
        bargauge(
            "Held but unused, by team",
            "USD of this month for GPUs that a team held but did not use. The longest bar has the most to save.",
            Target(expr=f"sort_desc({unused})", legend="{{team}}", instant=True),
            empty=NO_RECEIVER,
            unit=USD,
            width=8,
            thresholds=looks.steps(looks.ORANGE),
        ),
        timeseries(
            "This month against always-on",
            "The cost of the month, and its cost with every pool at its peak for the observed time. Shows what "
            "scaling saves, not a comparison with other autoscalers.",
            Target(expr=summed("gpu_autoscaler_always_on_usd"), legend="always on"),
            Target(expr=summed("gpu_autoscaler_always_on_spent_usd"), legend="spent"),
            empty=NO_RECEIVER,
            unit=USD,
            width=8,
            overrides=[looks.coloured("spent", looks.BLUE), looks.line("^always on$", looks.GREY)],
        ),
        table(
            "GPU time by team",
            "This month's GPU time of each team: held, the part that was measured, and the part of that which was "
            "idle. Little measured: the idle cost is known for that part only.",
            Target(expr=held, table=True),
            Target(expr=f"{measured} / ({held} > 0)", table=True),
            Target(expr=f"{idle} / ({measured} > 0)", table=True),
            empty="No workload held a GPU this month",
            unit="percentunit",
            width=16,
            sort="Held",
            columns={"team": "Team", "Value #A": "Held", "Value #B": "Measured", "Value #C": "Idle"},
            overrides=[looks.column("Held", unit="s")],
        ),
        stat(
            "Owners known for",
            "How long ago the receiver began to see who held GPUs, at most since the month began; of several clusters, "
            "the youngest. Spend from before that has no owner.",
            Target(
                expr=f"time() - max({of('gpu_autoscaler_cost_observed_from_timestamp_seconds')})", legend="observed"
            ),
            empty=NO_RECEIVER,
            unit="s",
            width=8,
            height=8,
        ),
    )
