"""The Helm chart by its values: what each documented set makes, and what is refused."""

import json
import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from receiver.config import load_text
from receiver.config.live import NEEDS_RESTART
from tests.lint import load_yaml, none_of
from tests.manifests.built import KUBERNETES, ROOT, custom_mistakes, is_custom, is_served, mistakes, read, the
from tests.rules.files import ALERTS, run
from tools.install_manifests import CHART, EXAMPLE, NotRendered, helm

JSON = dict[str, Any]
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SETS = {
    "observe": (),
    "act": ("mode=act",),
    "several replicas": ("ha.enabled=true",),
    "a Prometheus of one's own": ("monitoring=plain",),
    "no monitoring": ("monitoring=none", "createNamespace=true"),
    "a virtual machine": ("runsOn=vm", "createNamespace=true"),
    "elsewhere": (
        "publicUrl=https://gpu.example.com",
        "monitoringNamespace=observability",
        "prometheusRelease=kps",
        "prometheusUrl=http://thanos.observability.svc:9090",
        "imagePullSecrets[0].name=pull",
        "persistence.storageClass=fast",
        "dcgm.scrape=false",
        "actRights=true",
        "rights.mayWait=true",
        "doctor.rights=false",
        "alertmanagerConfig=false",
        "extraEnv[0].name=GPU_AUTOSCALER_TEAM_NOTIFY_URLS",
        "extraEnv[0].value=vision=json://chat.example.com",
        "networkPolicy.extraEgress[0].ports[0].port=10902",
        "dashboards.folder=GPU: ours",
    ),
}
POOL = "{name: a, civo_pool_id: p, size: an.g1.l40s.kube.x1, resources: {nvidia.com/gpu: 1}, max_nodes: 2}"
# A wrong value, and words of the sentence by which the schema refuses it.
WRONG = {
    "mode=acting": "'/mode': value must be one of 'observe', 'act'",
    "mod=act": "additional properties 'mod' not allowed",
    "pools[0].max_nodes=two": "'/pools/0/max_nodes': 'two' does not match pattern '^ *[+-]?[0-9_]+",
    "pools[0].max_nodes=-1": "'/pools/0/max_nodes': minimum: got -1, want 0",
    "pools[0].maxnodes=2": "'/pools/0': additional properties 'maxnodes' not allowed",
    "pools[0].taints[0].efect=NoSchedule": "'/pools/0/taints/0': additional properties 'efect' not allowed",
    "pools[0].windows[0].times[0].start=0": "times/0': additional properties 'start' not allowed",
    "pools[0].idle_for=10": "'/pools/0/idle_for': got number, want string",
    "pools[0].repair=yes": "'/pools/0/repair': value must be one of 'none', 'replace'",
    "pools[0].name=": "'/pools/0/name': '' does not match pattern",
    "pools[0].name=our GPUs": "'/pools/0/name': 'our GPUs' does not match pattern '^\\\\s*([A-Za-z0-9]",
    "pools[0].name=all": "'/pools/0/name': 'not' failed",  # reserved
    "pools[0].resources.cpu=1": "invalid propertyName 'cpu'",
    "pools[0].windows[0].months[0]=juny": "'/pools/0/windows/0/months/0': 'juny' does not match pattern",
    "pools[1].name=b": "'/pools/1': missing properties 'civo_pool_id', 'max_nodes'",
    "config.budgett.monthly_usd=5": "'/config': additional properties 'budgett' not allowed",
    "config.budget.monthly=5": "'/config/budget': additional properties 'monthly' not allowed",
    "config.budget.monthly_usd=-5": "'/config/budget/monthly_usd': minimum: got -5, want 0",
    "config.budget.hold_at=80": "'/config/budget/hold_at': maximum: got 80, want 1",
    "config.limits=8": "'/config/limits': got number, want object",
    "config.kubernetes.watch=maybe": "'/config/kubernetes/watch': 'maybe' does not match pattern '^([Tt]rue|",
    "config.tick=often": "'/config/tick': 'often' does not match pattern",
    "image.repository=": "'/image/repository': minLength: got 0, want 1",
    "image.digest=0a0a": "'/image/digest': '0a0a' does not match pattern",
    "extraEnv[0].name=A,extraEnv[0].value=1": "'/extraEnv/0/value': got number, want string",
    "persistence.existing=x": "'/persistence': additional properties 'existing' not allowed",
    "service.type=Public": "'/service/type': value must be one of 'ClusterIP', 'NodePort', 'LoadBalancer'",
    "ingress.enabled=true": "'/ingress/hosts': minItems: got 0, want 1",
    "affinity.nodeSelectorTerms[0].key=x": "'/affinity': additional properties 'nodeSelectorTerms' not allowed",
    "serviceMonitor.interval=5h": "'/serviceMonitor/interval': '5h' does not match pattern",
    "fullnameOverride=GPU": "'/fullnameOverride': 'GPU' does not match pattern",
    "image.repository=YOUR_REGISTRY/g": "'/image/repository': 'YOUR_REGISTRY/g' does not match pattern",
    "monitoring=datadog": "'/monitoring': value must be one of 'kube-prometheus-stack', 'plain', 'none'",
    "image.tags=1": "'/image': additional properties 'tags' not allowed",
    "publicUrl=gpu.example.com": "'/publicUrl': 'gpu.example.com' does not match pattern",
    "ha.replicas=1": "'/ha/replicas': minimum: got 1, want 2",
    "rules.alerts.GpuNodesIdle.for=soon": "'/rules/alerts/GpuNodesIdle/for': 'soon' does not match pattern",
    "rules.alerts.GpuNodesIdle.severity=info": "severity': value must be one of 'none', 'warning', 'critical'",
}
# The same of what the schema takes and the templates refuse.
UNFIT = {
    "rules.alerts.NoSuchAlert.enabled=false": "rules.alerts.NoSuchAlert: there is no such alert",
    "rules.alerts.GpuPoolBusy.threshold=0.9": "is a policy of the configuration; set pools[].utilization.high",
    "rules.alerts.GpuIdleCostHigh.threshold=9": "is a policy of the configuration; set config.idle_cost_usd_per_hour",
    "rules.alerts.GpuXidFatal.threshold=9": "compares with no number that could be changed; set `expr`",
    "config.mode=act": "config.mode: set `mode` at the top of the values instead",
}
# A wrong file, and what `helm lint` says of it.
LINTED = {
    "config: {budgett: {monthly_usd: 5}}": "'/config': additional properties 'budgett' not allowed",
    "config: {budget: {monthly_usd: lots}}": "'/config/budget/monthly_usd': 'lots' does not match pattern",
    "config: {tick: 30}": "'/config/tick': got number, want string",
    "config: {notify: {destinations: [chat]}}": "'/config/notify/destinations': got array, want object",
    "config: {limits: {max_gpus: many}}": "'/config/limits/max_gpus': 'many' does not match pattern",
    f"pools: [{POOL[:-1]}, maxnodes: 2}}]": "'/pools/0': additional properties 'maxnodes' not allowed",
    f"pools: [{POOL[:-1]}, windows: nights}}]": "'/pools/0/windows': got string, want array",
    f"pools: {POOL}": "'/pools': got object, want array",
    "mode: dry-run": "'/mode': value must be one of 'observe', 'act'",
    "image: {repository: YOUR_REGISTRY/civo-gpu-autoscaler}": "'/image/repository': 'YOUR_REGISTRY/",
    "replicaCount: 2": "'': additional properties 'replicaCount' not allowed",
    "nodeSelector: [gpu]": "'/nodeSelector': got array, want object",
}


def made(*values: str, namespace: str = "gpu-autoscaler") -> tuple[JSON, ...]:
    """Return the objects that the example's values with *values* make."""
    given = [word for value in values for word in ("--set", value)]
    return tuple(read(helm("--values", EXAMPLE, *given, "--namespace", namespace)))


def rules(*values: str) -> dict[str, JSON]:
    """Return the alerts of the rendered PrometheusRules by name."""
    groups = [g for o in made(*values) if o["kind"] == "PrometheusRule" for g in o["spec"]["groups"]]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


@pytest.mark.parametrize("name", SETS)
def test_what_a_set_of_values_makes_fits_every_version_of_kubernetes_and_the_crds(name: str) -> None:
    objects = made(*SETS[name])
    assert len(objects) > 5
    served = ((version, o) for version in KUBERNETES for o in objects if not is_custom(o) and is_served(o, version))
    none_of(f"{version}: {wrong}" for version, o in served if (wrong := mistakes(o, version)))
    none_of(wrong for o in objects if is_custom(o) for wrong in custom_mistakes(o))


def test_rights_to_act_come_with_their_fence_where_kubernetes_has_policies() -> None:
    def fenced(version: str, *values: str) -> bool:
        given = [part for value in ("monitoring=none", *values) for part in ("--set", value)]
        said = helm("--values", EXAMPLE, "--kube-version", version, *given)
        return "ValidatingAdmissionPolicy" in said

    assert [fenced(version, "mode=act") for version in ("1.28.0", "1.29.5", "1.30.0", "1.36.1")] == [
        False,
        False,
        True,
        True,
    ]
    assert not fenced("1.36.0")
    assert fenced("1.36.0", "actRights=true")


def test_the_right_to_patch_pods_is_refused_where_nothing_can_fence_it() -> None:
    with pytest.raises(NotRendered, match=r"rights\.mayWait needs ValidatingAdmissionPolicy"):
        helm("--values", EXAMPLE, "--kube-version", "1.29.0", "--set", "mode=act,rights.mayWait=true")


def test_the_values_of_the_tests_and_defaults_name_every_value_that_the_schema_has() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
    values = load_yaml((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert values.keys() == schema.keys() - {"enabled", "global", "storage"}  # of charts above this one, and of 0.2
    different = {
        f"{name}.{key}"
        for name, said in schema.items()
        if isinstance(values.get(name), dict) and name != "affinity"
        for key in said.get("properties", values[name]).keys() ^ values[name].keys()
    }
    assert different == {"image.pullSecrets"}  # of 0.2


@pytest.fixture(scope="module")
def refusals() -> dict[str, str]:
    """What Helm says of each wrong value, beside others with other keys: it lists all that the schema refuses."""
    batches: list[dict[str, str]] = []
    for wrong in WRONG:
        key = wrong.partition("=")[0]
        batch = next((batch for batch in batches if key not in batch), None)
        if batch is None:
            batches.append(batch := {})
        batch[key] = wrong
    found = dict[str, str]()
    for batch in batches:
        with pytest.raises(NotRendered) as refused:
            made(*batch.values())
        found |= dict.fromkeys(batch.values(), str(refused.value))
    return found


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_value_is_refused_by_its_name(wrong: str, refusals: dict[str, str]) -> None:
    assert WRONG[wrong] in refusals[wrong]


@pytest.mark.parametrize("unfit", UNFIT)
def test_a_value_that_fits_the_schema_alone_is_refused_by_its_name(unfit: str) -> None:
    with pytest.raises(NotRendered) as refused:
        made(unfit)
    assert UNFIT[unfit] in str(refused.value)


@pytest.mark.parametrize("wrong", LINTED)
def test_lint_names_the_wrong_key_of_a_file(wrong: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(wrong, encoding="utf-8")
    ran = run("helm-4", "lint", CHART, "--values", EXAMPLE, "--values", tmp_path / "wrong.yaml")
    assert ran.returncode != 0
    [refused] = [line for line in (ran.stdout + ran.stderr).splitlines() if line.lstrip().startswith("- at")]
    assert LINTED[wrong] in refused


@pytest.mark.parametrize(
    "value", ["rbac", "networkPolicy.enabled", "affinity", "persistence", "service.port", "rules", "config", "ha"]
)
def test_values_without_the_defaults_of_this_chart_are_refused(value: str) -> None:
    with pytest.raises(NotRendered) as refused:  # as `helm upgrade --reuse-values` of an older release has them
        made(f"{value}=null")
    assert f"missing property '{value.rpartition('.')[2]}'" in str(refused.value)


def test_pools_must_be_given() -> None:
    with pytest.raises(NotRendered, match="pools: name at least one GPU node pool, with civo_pool_id and max_nodes"):
        helm("--set", "image.repository=r.example.org/g")


def test_the_configuration_is_one_that_the_server_takes() -> None:
    text = the(made("publicUrl=https://gpu.example.com/", "config.budget.monthly_usd=2500000"), "ConfigMap")
    settings = load_text(text["data"]["config.yaml"])
    assert settings.configuration.mode == "observe"
    assert str(settings.configuration.public_url).rstrip("/") == "https://gpu.example.com"
    assert settings.policy.budget is not None
    assert settings.policy.budget.monthly_usd == 2_500_000
    assert settings.configuration.prometheus.url == "http://prometheus-operated.monitoring.svc:9090"


def test_an_amount_above_a_million_with_cents_reaches_the_server() -> None:
    values = "config: {budget: {monthly_usd: 2500000.75, teams: {vision: 1000000}}}"
    text = the(tuple(read(helm("--values", EXAMPLE, "--values", "-", text=values))), "ConfigMap")["data"]["config.yaml"]
    assert "2.50000075e+06" in text  # Helm's words for it
    budget = load_text(text).policy.budget
    assert budget is not None
    assert str(budget.monthly_usd) == "2500000.75"


def test_further_variables_reach_the_pod_and_the_routes_can_be_left_out() -> None:
    objects = made(*SETS["elsewhere"])
    [container] = the(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["env"][-1]["name"] == "GPU_AUTOSCALER_TEAM_NOTIFY_URLS"
    assert [o for o in objects if o["kind"] == "AlertmanagerConfig"] == []


@pytest.mark.parametrize(
    ("values", "repeats", "groups"),
    [
        ((), timedelta(minutes=2), MINUTE),
        (("alertmanagerConfig=false",), 4 * HOUR, 5 * MINUTE),
        (("monitoring=none",), 4 * HOUR, 5 * MINUTE),
    ],
    ids=["its routes", "routes of your own", "no monitoring"],
)
def test_the_server_knows_the_intervals_of_the_routes_that_the_chart_installs(
    values: tuple[str, ...], repeats: timedelta, groups: timedelta
) -> None:
    alertmanager = load_text(the(made(*values), "ConfigMap")["data"]["config.yaml"]).configuration.alertmanager
    assert (alertmanager.repeat_interval, alertmanager.group_interval) == (repeats, groups)


def test_a_new_pod_starts_for_a_key_that_needs_a_restart_and_for_no_other() -> None:
    def pod(*sets: str) -> object:
        return the(made("config.budget.monthly_usd=100", *sets), "Deployment")["spec"]["template"]

    assert pod() == pod("config.budget.monthly_usd=200", "config.objective=wait", "config.cluster_name=x")
    assert pod() != pod("config.tick=5s")


def test_the_chart_knows_every_key_that_needs_a_restart() -> None:
    template = (ROOT / "k8s" / "chart" / "templates" / "deployment.yaml").read_text(encoding="utf-8")
    [picked] = [line for line in template.splitlines() if "pick (include" in line]
    assert set(re.findall(r'"(\w+)"', picked)) - {"configuration"} == {key.partition(".")[0] for key in NEEDS_RESTART}


def test_alerts_are_changed_by_name_and_others_stay() -> None:
    before = rules()
    after = rules(
        "rules.alerts.GpuNodesIdle.enabled=false",
        "rules.alerts.GpuQueueWaitLong.for=5m",
        "rules.alerts.GpuQueueWaitLong.severity=critical",
        "rules.alerts.GpuAutoscalerNoticesStuck.threshold=1800",
    )
    assert {name for name in before if before[name] != after.get(name)} == {
        "GpuNodesIdle",
        "GpuQueueWaitLong",
        "GpuAutoscalerNoticesStuck",
    }
    assert "GpuNodesIdle" not in after
    assert (after["GpuQueueWaitLong"]["for"], after["GpuQueueWaitLong"]["labels"]["severity"]) == ("5m", "critical")
    assert after["GpuAutoscalerNoticesStuck"]["expr"].strip() == "min(gpu_autoscaler_notices_oldest_seconds) > 1800"


def test_every_threshold_of_the_table_is_in_the_expression_of_its_alert_or_a_key_of_the_configuration(
    tmp_path: Path,
) -> None:
    table = load_yaml((CHART / "files" / "thresholds.yaml").read_text(encoding="utf-8"))
    assert table.keys() <= {a.name for a in ALERTS}
    numbers = [name for name, said in table.items() if "text" in said]
    changed = rules(*(f"rules.alerts.{name}.threshold=0.123" for name in numbers))
    none_of(name for name in numbers if "0.123" not in changed[name]["expr"])
    groups = [{"name": "g", "rules": [changed[name] for name in numbers]}]
    (tmp_path / "changed.yaml").write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
    ran = run("promtool", "check", "rules", tmp_path / "changed.yaml")
    assert ran.returncode == 0, ran.stderr
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    none_of(name for name, said in table.items() if "key" in said and f"`{said['key']}`" not in page)


def test_links_of_alerts_and_dashboards_lead_to_the_public_url() -> None:
    objects = made("publicUrl=https://gpu.example.com")
    links = {
        rule["annotations"]["runbook_url"]
        for o in objects
        if o["kind"] == "PrometheusRule"
        for group in o["spec"]["groups"]
        for rule in group["rules"]
        if "alert" in rule and "runbook_url" in rule["annotations"]
    }
    assert len(links) > 30
    none_of(link for link in links if not link.startswith("https://gpu.example.com/docs/runbooks/Gpu"))
    boards = [o for o in objects if o["kind"] == "ConfigMap" and o["metadata"]["name"].endswith("-dashboard")]
    none_of(o["metadata"]["name"] for o in boards if "127.0.0.1" in json.dumps(o["data"]))


def test_in_another_namespace_everything_names_that_one() -> None:
    objects = made(namespace="scaling")
    told = json.dumps([o for o in objects if o["kind"] != "ConfigMap"])
    assert '"namespace": "scaling"' in told
    assert '"namespace": "gpu-autoscaler"' not in told
    assert "gpu-autoscaler.gpu-autoscaler.svc" not in told
    plain = json.dumps(made("monitoring=plain", namespace="scaling"))
    assert "headless.scaling.svc" in plain
    assert "headless.gpu-autoscaler." not in plain


def test_the_test_pod_may_connect_and_reads_the_secret_of_the_release() -> None:
    objects = made("secrets.autoscaler=mine")
    pod = the(objects, "Pod", "gpu-autoscaler-test")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    policy = the(objects, "NetworkPolicy")["spec"]["ingress"][0]["from"]
    labels = [one["podSelector"].get("matchLabels") for one in policy]
    assert {"app.kubernetes.io/name": pod["metadata"]["labels"]["app.kubernetes.io/name"]} in labels
    [container] = pod["spec"]["containers"]
    [token] = [v["valueFrom"]["secretKeyRef"] for v in container["env"] if "valueFrom" in v]
    assert token == {"name": "mine", "key": "operator-token"}


def test_every_pod_pulls_its_image_with_the_secrets_that_are_named() -> None:
    objects = made(*SETS["elsewhere"])
    for spec in (
        the(objects, "Deployment")["spec"]["template"]["spec"],
        the(objects, "Pod", "gpu-autoscaler-test")["spec"],
    ):
        assert spec["imagePullSecrets"] == [{"name": "pull"}]
        assert [c["imagePullPolicy"] for c in spec["containers"]] == ["IfNotPresent"]


def test_further_traffic_may_be_allowed() -> None:
    policy = the(made(*SETS["elsewhere"]), "NetworkPolicy")
    assert policy["spec"]["egress"][-1] == {"ports": [{"port": 10902}]}


def test_a_server_outside_of_the_cluster_gets_no_monitoring_of_a_service_that_is_not_there() -> None:
    assert {o["apiVersion"] for o in made("runsOn=vm") if is_custom(o)} == set()
    assert [o["metadata"]["name"] for o in made("runsOn=vm", "monitoring=plain") if o["kind"] == "ConfigMap"] == []


def test_no_pod_starts_on_a_node_of_the_sizes_that_are_given() -> None:
    spec = the(made("pools[0].size=an.g1.new.kube.x8"), "Deployment")["spec"]["template"]["spec"]
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert "an.g1.new.kube.x8" in term["matchExpressions"][1]["values"]


def test_no_pod_starts_on_a_node_of_a_pool_whose_size_civo_says() -> None:
    spec = the(made("pools[1].civo_pool_id=7777", "pools[1].max_nodes=1"), "Deployment")["spec"]["template"]["spec"]
    [term] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    expected = {"key": "kubernetes.civo.com/civo-node-pool", "operator": "NotIn", "values": ["7777"]}
    assert term["matchExpressions"][2:] == [expected]
    assert None not in term["matchExpressions"][1]["values"]


def test_the_chart_is_of_the_version_of_the_release() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    chart = load_yaml((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_helm_finds_nothing_to_say_against_the_chart() -> None:
    ran = run("helm-4", "lint", "--strict", CHART, "--values", EXAMPLE)
    assert ran.returncode == 0, ran.stdout
    assert "[ERROR]" not in ran.stdout
    assert "[WARNING]" not in ran.stdout


def test_the_notes_say_what_to_do_next() -> None:
    def notes(*values: str) -> str:
        given = [word for value in values for word in ("--set", value)]
        ran = run("helm-4", "install", "x", CHART, "--dry-run=client", "--namespace", "g", "--values", EXAMPLE, *given)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.partition("NOTES:")[2]

    assert "is in observe mode with 1 pool." in notes()
    assert "gpu-autoscaler doctor" in notes()
    assert "write `mode: act` into your values" in notes()
    assert "WARNING: image.repository is the example's." in notes()
    assert "gpu-autoscaler pause --for" in notes("mode=act", "image.repository=r.example.org/g")
    assert "WARNING" not in notes("image.repository=r.example.org/g")
