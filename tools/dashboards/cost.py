"""Cost: spend and forecast against the budget, owners, idle cost, and savings."""

from tools.dashboards import annotations, links, looks
from tools.dashboards.model import Dashboard, Panel, Row, Target
from tools.dashboards.panels import bargauge, gauge, stat, table, timeseries
from tools.dashboards.promql import NAMESPACE, by_pool, of
from tools.dashboards.variables import namespaces, pools

USD = "currencyUSD"
SCOPE = "scope, name"
CLUSTER = 'scope="cluster"'
WORKLOAD_NAMESPACE = 'workload_namespace=~"$namespace"'
COSTS_PAGE = links.opened("Costs in the autoscaler", "${autoscaler_url}/costs")
UID = "gpu-autoscaler-cost"


def dashboard() -> Dashboard:
    """Return the dashboard."""
    return Dashboard(
        uid=UID,
        title="GPU autoscaler / Cost",
        description="GPU spend and forecast against the budget, by team, workload and kind of GPU; idle cost; savings.",
        rows=links.with_runbooks(
            Row(title="This month", panels=_month()),
            Row(title="Budget", panels=_budget()),
            Row(title="By owner", panels=_whose()),
            Row(title="Idle and saved", panels=_idle()),
        ),
        annotations=annotations.EVERY,
        variables=(pools(), namespaces(), *links.VARIABLES),
        links=links.of_dashboard(UID, "/costs", "Costs page"),
        span="now-24h",
        refresh="1m",
    )


def _of_scope(metric: str, *matchers: str) -> str:
    return f"max by ({SCOPE}) ({of(metric, *matchers)})"


def _month() -> tuple[Panel, ...]:
    def cluster(metric: str) -> str:
        return f"max({of(metric, CLUSTER)})"

    per_hour = f"max({of('cluster:gpu_spend_usd_per_hour:sum')})"
    idle_parts = f"sum(max by (cluster, gpu_kind) ({of('gpu_autoscaler_cost_usd', part='unallocated')}))"
    idle_held = f"sum(max by (cluster, team) ({of('gpu_autoscaler_cost_team_idle_usd')}))"
    return (
        stat(
            "Spent",
            "USD of this month by the receiver's ledger: all started paid units, idle or not. Compare with Budget.",
            Target(expr=cluster("gpu_autoscaler_budget_spent_usd"), legend="spent"),
            unit=USD,
            links=[COSTS_PAGE],
        ),
        stat(
            "Budget",
            "The month's allowance in USD for the whole cluster. Empty: no budget is set.",
            Target(expr=cluster("gpu_autoscaler_budget_limit_usd"), legend="budget"),
            unit=USD,
            spark=False,
        ),
        stat(
            "Forecast",
            "USD at the month's end if the average of the month, as far as the ledger saw it, continues. Above Budget: "
            "growth will be held before the month ends. Empty in the first day.",
            Target(expr=cluster("gpu_autoscaler_budget_forecast_usd"), legend="forecast"),
            unit=USD,
        ),
        stat(
            "Cost per hour",
            "USD per hour of all existing nodes. It should fall when demand falls.",
            Target(expr=per_hour, legend="per hour"),
            unit=USD,
            decimals=2,
        ),
        stat(
            "Idle this month",
            "USD of this month for nodes without GPU pods, and for GPUs that pods held but did not use. Compare with "
            "Spent.",
            Target(expr=f"{idle_parts} + ({idle_held} or vector(0))", legend="idle"),
            unit=USD,
            thresholds=looks.PLAIN,
        ),
        stat(
            "Saved against always-on",
            "Additional USD that this month would have cost with every pool at its peak for the observed time. The "
            "higher, the more scaling saves.",
            Target(
                expr=f"max({of('gpu_autoscaler_always_on_usd')}) - max({of('gpu_autoscaler_always_on_spent_usd')})",
                legend="saved",
            ),
            unit=USD,
            thresholds=looks.steps(looks.RED, (0, looks.GREEN)),
        ),
    )


def _budget() -> tuple[Panel, ...]:
    limit = _of_scope("gpu_autoscaler_budget_limit_usd", CLUSTER)
    line = f"max by (stage) ({of('gpu_autoscaler_budget_threshold_ratio')}) * scalar({limit})"
    return (
        timeseries(
            "Spend and forecast against the budget",
            "The cluster's spend, additional reservations for growth, the forecast, and the lines at which the "
            "receiver warns, holds growth and stops. Look for a forecast above a line.",
            Target(expr=_of_scope("gpu_autoscaler_budget_spent_usd", CLUSTER), legend="spent"),
            Target(
                expr=f"{_of_scope('gpu_autoscaler_budget_spent_usd', CLUSTER)} "
                f"+ {_of_scope('gpu_autoscaler_budget_reserved_usd', CLUSTER)}",
                legend="spent and reserved",
            ),
            Target(expr=_of_scope("gpu_autoscaler_budget_forecast_usd", CLUSTER), legend="forecast"),
            Target(expr=line, legend="line: {{stage}}"),
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
            Target(expr=_of_scope("scope_name:gpu_budget_used:ratio"), legend="{{scope}} {{name}}"),
            unit="percentunit",
            thresholds=looks.BUDGET,
            width=6,
            height=9,
        ),
        gauge(
            "Budgets by forecast",
            "The forecast of each budget relative to it. Above 100 %: it will not last the month.",
            Target(expr=_of_scope("scope_name:gpu_budget_forecast:ratio"), legend="{{scope}} {{name}}"),
            unit="percentunit",
            thresholds=looks.BUDGET,
            width=6,
            height=9,
            most=1.5,
        ),
        timeseries(
            "Cost per hour by pool",
            "USD per hour of all existing nodes, idle or not. Look for pools that cost money while nothing runs.",
            Target(expr=by_pool("pool:gpu_spend_usd_per_hour:sum"), legend="{{pool_name}}"),
            unit=USD,
            decimals=2,
            stacked=True,
            steps=True,
            links=[links.POOL_PAGE],
        ),
        table(
            "Budgets",
            "All configured budgets: of the account, the cluster, pools and teams. Spent and Reserved together near "
            "the Budget: growth is about to be held.",
            *(
                Target(expr=_of_scope(f"gpu_autoscaler_budget_{amount}_usd"), table=True)
                for amount in ("limit", "spent", "reserved", "forecast")
            ),
            unit=USD,
            columns={
                "scope": "Scope",
                "name": "Name",
                "Value #A": "Budget",
                "Value #B": "Spent",
                "Value #C": "Reserved",
                "Value #D": "Forecast",
            },
        ),
    )


def _whose() -> tuple[Panel, ...]:
    usd = of("gpu_autoscaler_cost_workload_usd", WORKLOAD_NAMESPACE)
    kinds = of("gpu_autoscaler_cost_usd", 'gpu_kind!=""')
    idle = of("namespace_workload:gpu_idle_usd_per_hour:sum", NAMESPACE)
    return (
        bargauge(
            "By team",
            "USD of the nodes and GPUs that a team's workloads held this month; unlabelled: pods without the team's "
            "label. A long unlabelled bar: add the label to those pods.",
            Target(
                expr=f"sort_desc(max by (team) ({of('gpu_autoscaler_cost_team_usd')}))", legend="{{team}}", instant=True
            ),
            unit=USD,
            width=8,
            links=[COSTS_PAGE],
        ),
        bargauge(
            "By kind of GPU",
            "USD of this month by kind of GPU, held or not; excludes spend from before the ledger began. Compare "
            "kinds that do the same work.",
            Target(
                expr=f"sort_desc(sum by (gpu_kind) (max by (part, gpu_kind) ({kinds})))",
                legend="{{gpu_kind}}",
                instant=True,
            ),
            unit=USD,
            width=8,
        ),
        bargauge(
            "By use",
            "USD of this month: held by workloads or not. unallocated: no pod held the GPU. seeded: spent before the "
            "ledger began.",
            Target(
                expr=f"sort_desc(sum by (part) (max by (part, gpu_kind) ({of('gpu_autoscaler_cost_usd')})))",
                legend="{{part}}",
                instant=True,
            ),
            unit=USD,
            width=8,
        ),
        table(
            "Top consumers",
            "The 20 most expensive workloads of this month, running or ended. (other): workloads beyond the 50 most "
            "expensive ones.",
            Target(expr=f"topk(20, max by (workload_namespace, workload) ({usd}))", table=True),
            unit=USD,
            sort="This month",
            columns={"workload_namespace": "Namespace", "workload": "Workload", "Value": "This month"},
            overrides=[looks.column("This month", decimals=2)],
        ),
        timeseries(
            "Month's cost by team",
            "Cumulative cost of each team this month; it starts at 0 on the first. The steepest line spends fastest.",
            Target(expr=f"max by (team) ({of('gpu_autoscaler_cost_team_usd')})", legend="{{team}}"),
            unit=USD,
            stacked=True,
        ),
        table(
            "Workloads by idle cost",
            "USD per hour of allocated GPUs that have been idle for an hour. Empty: none is.",
            Target(expr=f"topk(20, max by (namespace, workload_kind, workload) ({idle}))", table=True),
            unit=USD,
            width=12,
            sort="Idle per hour",
            columns={
                "namespace": "Namespace",
                "workload_kind": "Kind",
                "workload": "Workload",
                "Value": "Idle per hour",
            },
            overrides=[looks.column("Idle per hour", decimals=2)],
        ),
        timeseries(
            "Month's cost by namespace",
            "Cumulative cost of each selected namespace this month. The steepest line spends fastest.",
            Target(
                expr=f"max by (workload_namespace) ({of('gpu_autoscaler_cost_namespace_usd', WORKLOAD_NAMESPACE)})",
                legend="{{workload_namespace}}",
            ),
            unit=USD,
            stacked=True,
        ),
    )


def _idle() -> tuple[Panel, ...]:
    return (
        timeseries(
            "Idle cost per hour by pool",
            "USD per hour of nodes without GPU pods and of allocated but idle GPUs. Look for lines that do not return "
            "to 0.",
            Target(expr=by_pool("pool:gpu_idle_usd_per_hour:sum"), legend="{{pool_name}}"),
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
            Target(
                expr=f"sort_desc(max by (team) ({of('gpu_autoscaler_cost_team_idle_usd')}))",
                legend="{{team}}",
                instant=True,
            ),
            unit=USD,
            width=8,
            thresholds=looks.steps(looks.ORANGE),
        ),
        timeseries(
            "This month against always-on",
            "The cost of the month, and its cost with every pool at its peak for the observed time. Shows what "
            "scaling saves, not a comparison with other autoscalers.",
            Target(expr=f"max({of('gpu_autoscaler_always_on_usd')})", legend="always on"),
            Target(expr=f"max({of('gpu_autoscaler_always_on_spent_usd')})", legend="spent"),
            unit=USD,
            width=8,
            overrides=[looks.coloured("spent", looks.BLUE), looks.line("^always on$", looks.GREY)],
        ),
    )
