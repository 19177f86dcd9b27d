"""What the objects of k8s/install say of each other, of the product and of the cluster is so."""

import copy
import json
import re
import subprocess
import tomllib
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from receiver.config import load_text
from receiver.config.environment import read_environment
from receiver.server import gunicorn_conf
from receiver.web.app import create_app
from tests.lint import load_yaml
from tests.manifests.built import INSTALLED, K8S, ROOT, installed, made_of, mounted_secrets, read, the
from tests.rules.files import EVERY_RULE, RULE_FILES, run
from tests.web.builders import Bench
from tests.web.fakes import FakeHealth
from tools.install_manifests import EXAMPLE, OWN_JOBS, helm

JSON = dict[str, Any]
RUNS = ("observe", "act", "ha")
runs = pytest.mark.parametrize("name", RUNS)
UNPRICED = ("an.g1.h100.kube.x2", "an.g1.h100.kube.x4")  # sizes of Civo without a public price
SPARE = timedelta(seconds=5)  # between the end of gunicorn's grace and the kubelet's kill


def pod(name: str) -> JSON:
    """Return the pod's spec of the file *name*."""
    spec: JSON = the(installed(name), "Deployment")["spec"]["template"]["spec"]
    return spec


def container(name: str) -> JSON:
    """Return the one container of the file *name*."""
    [found] = pod(name)["containers"]
    return dict(found)


def config(name: str) -> str:
    """Return the configuration file of the file *name*."""
    return str(the(installed(name), "ConfigMap", "gpu-autoscaler")["data"]["config.yaml"])


# --- the product ------------------------------------------------------------------------------------------


def test_acting_differs_from_observing_in_the_mode_and_in_the_right_to_it() -> None:
    def of(name: str) -> list[JSON]:
        found = copy.deepcopy([o for o in installed(name) if o["kind"] != "ConfigMap"])
        del the(tuple(found), "Deployment")["spec"]["template"]["metadata"]["annotations"]  # of the configuration
        return found

    more = [o for o in of("act") if o not in of("observe")]
    bindings = [("ClusterRoleBinding", "gpu-autoscaler-act"), ("RoleBinding", "gpu-autoscaler-own")]
    assert sorted((o["kind"], o["metadata"]["name"]) for o in more) == bindings
    assert [o for o in of("observe") if o not in of("act")] == []
    observes, acts = (load_text(config(name)).configuration for name in ("observe", "act"))
    assert (observes.mode, acts.mode) == ("observe", "act")
    assert observes.model_copy(update={"mode": "act"}) == acts


@runs
def test_only_the_file_of_that_name_acts(name: str) -> None:
    bound = [o["roleRef"]["name"] for o in installed(name) if o["kind"] == "ClusterRoleBinding"]
    reads = ["gpu-autoscaler-doctor", "gpu-autoscaler-look"]
    assert sorted(bound) == (["gpu-autoscaler-act", *reads] if name == "act" else reads)


@runs
def test_the_environment_of_the_pod_is_one_that_the_server_takes(name: str, tmp_path: Path) -> None:
    secrets = {
        "civo-api-access": {
            "api-key": "k" * 20,
            "api-url": "https://api.civo.com",
            "cluster-id": "c1",
            "region": "LON1",
        },
        "gpu-autoscaler": {"operator-token": "o" * 48, "webhook-token": "w" * 48},
        "gpu-autoscaler-database": {"url": "postgresql://u:p@db:5432/ledger"},
    }
    environ = _environ(name, secrets, tmp_path)
    assert not {"GPU_AUTOSCALER_NOTIFY_URLS", "GPU_AUTOSCALER_READER_TOKEN", "CIVO_API_KEY"} & environ.keys()
    environment, wrong, warnings = read_environment(environ)
    assert (wrong, warnings) == ([], [])
    assert environment is not None
    assert environment.civo_api_key.get_secret_value() == "k" * 20
    assert [t.get_secret_value() for t in environment.webhook_tokens] == ["w" * 48]
    assert environment.database_url.get_secret_value().startswith("postgresql" if name == "ha" else "sqlite")


def _environ(name: str, secrets: dict[str, dict[str, str]], folder: Path) -> dict[str, str]:
    """Return the container's variables, with its mounted Secrets as files below *folder*."""
    volumes = {v["name"]: v for v in pod(name)["volumes"]}
    for mount in container(name)["volumeMounts"]:
        for secret in mounted_secrets(volumes[mount["name"]]):
            held = secrets[secret["name"]]
            place = folder / mount["mountPath"].lstrip("/")
            (place / "..data").mkdir(parents=True, exist_ok=True)
            for item in secret.get("items") or [{"key": key, "path": key} for key in held]:
                assert item["key"] in held or secret.get("optional"), item
                if item["key"] in held:
                    (place / item["path"]).write_text(held[item["key"]] + "\n", encoding="utf-8")
    found = {}
    for variable in container(name)["env"]:
        if "value" in variable:
            value = str(variable["value"])
            found[variable["name"]] = f"{folder}{value}" if variable["name"].endswith("_FILE") else value
        else:
            asked = variable["valueFrom"]["secretKeyRef"]
            held = secrets[asked["name"]]
            assert asked["key"] in held or asked.get("optional"), asked
            if asked["key"] in held:
                found[variable["name"]] = held[asked["key"]]
    return found


@runs
def test_the_configuration_is_where_the_server_looks_for_it(name: str) -> None:
    [variable] = [v["value"] for v in container(name)["env"] if v["name"] == "GPU_AUTOSCALER_CONFIG"]
    mounts = {m["name"]: m["mountPath"] for m in container(name)["volumeMounts"]}
    [volume] = [v for v in pod(name)["volumes"] if v["name"] == "config"]
    assert volume["configMap"]["name"] == "gpu-autoscaler"
    assert f"{mounts['config']}/config.yaml" == variable


@runs
def test_the_kubelet_asks_what_the_server_serves(name: str) -> None:
    urls = create_app(Bench().parts()).url_map.bind("here")
    ports = {p["name"]: p["containerPort"] for p in container(name)["ports"]}
    assert ports == {"http": int(gunicorn_conf.bind.rpartition(":")[2])}
    readiness = "/readyz?exclude=steps"
    for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"), ("readinessProbe", readiness)):
        asked = container(name)[probe]["httpGet"]
        assert (asked["path"], asked["port"]) == (path, "http")
        assert "GET" in urls.allowed_methods(path.partition("?")[0])


@runs
def test_steps_that_fail_take_no_pod_out_of_the_service(name: str) -> None:
    client = create_app(Bench(health=FakeHealth(good_age=timedelta(hours=1))).parts()).test_client()
    assert client.get("/readyz").status_code == 503
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert client.get(container(name)[probe]["httpGet"]["path"]).status_code == 200


@runs
def test_the_pod_has_longer_to_end_than_the_server_takes(name: str) -> None:
    grace = pod(name)["terminationGracePeriodSeconds"]
    assert grace >= gunicorn_conf.graceful_timeout + SPARE.total_seconds()


@pytest.mark.parametrize("name", INSTALLED)
def test_every_image_has_the_version_of_this_release(name: str) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    images = [c["image"] for o in installed(name) if o["kind"] == "Deployment" for c in _containers(o)]
    assert {image.rpartition(":")[2] for image in images} == ({version} if name in RUNS else set())


def _containers(deployment: JSON) -> list[JSON]:
    spec = deployment["spec"]["template"]["spec"]
    return [*spec["containers"], *spec.get("initContainers", ())]


# --- the cluster ------------------------------------------------------------------------------------------


@runs
def test_whatever_selects_pods_selects_ours(name: str) -> None:
    objects = installed(name)
    labels = the(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    selectors = [
        the(objects, "Deployment")["spec"]["selector"]["matchLabels"],
        the(objects, "Service")["spec"]["selector"],
        the(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        *(o["spec"]["podSelector"]["matchLabels"] for o in objects if o["kind"] == "NetworkPolicy"),
        *(c["labelSelector"]["matchLabels"] for c in pod(name).get("topologySpreadConstraints", ())),
    ]
    assert len(selectors) >= 4
    assert [s for s in selectors if not s or not s.items() <= labels.items()] == []


@runs
def test_whatever_the_pod_names_is_there(name: str) -> None:
    objects = installed(name)
    assert the(objects, "ServiceAccount", pod(name)["serviceAccountName"])
    assert the(objects, "PriorityClass", pod(name)["priorityClassName"])
    claims = [v["persistentVolumeClaim"]["claimName"] for v in pod(name)["volumes"] if "persistentVolumeClaim" in v]
    there = [o["metadata"]["name"] for o in objects if o["kind"] == "PersistentVolumeClaim"]
    assert claims == there == ([] if name == "ha" else ["gpu-autoscaler"])
    assert {m["name"] for m in container(name)["volumeMounts"]} == {v["name"] for v in pod(name)["volumes"]}
    for binding in (o for o in objects if o["kind"] == "ClusterRoleBinding"):
        assert the(objects, "ClusterRole", binding["roleRef"]["name"])


@runs
def test_a_namespace_that_takes_only_restricted_pods_takes_ours(name: str) -> None:
    labels = the(installed(name), "Namespace")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    own, its = pod(name)["securityContext"], container(name)["securityContext"]
    assert own["runAsNonRoot"] is True
    assert {own["runAsUser"], own["runAsGroup"], own["fsGroup"]} == {10001}
    assert own["seccompProfile"] == {"type": "RuntimeDefault"}
    assert its == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    kinds = {key for v in pod(name)["volumes"] for key in v if key != "name"}
    assert kinds <= {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod(name).keys()


@runs
def test_the_pod_runs_the_image_as_it_is_built(name: str) -> None:
    said = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    own = pod(name)["securityContext"]
    assert f"\nUSER {own['runAsUser']}:{own['runAsGroup']}\n" in said
    entry, arguments = (json.loads(found) for found in re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", said, re.MULTILINE))
    assert container(name)["command"] == entry + arguments
    [variable] = [v["value"] for v in container(name)["env"] if v["name"] == "GPU_AUTOSCALER_CONFIG"]
    assert f"GPU_AUTOSCALER_CONFIG={variable}" in said


@runs
def test_no_gpu_node_takes_the_pod(name: str) -> None:
    spec = pod(name)
    assert spec.get("tolerations", []) == []
    node = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = node["nodeSelectorTerms"]
    asked = {e["key"]: (e["operator"], e.get("values")) for e in term["matchExpressions"]}
    sizes = load_yaml((ROOT / "receiver" / "config" / "civo_prices.yaml").read_text(encoding="utf-8"))["sizes"]
    assert asked == {
        "nvidia.com/gpu.present": ("DoesNotExist", None),
        "node.kubernetes.io/instance-type": ("NotIn", [*sizes, *UNPRICED]),
    }


@runs
def test_a_drain_of_its_node_is_never_blocked(name: str) -> None:
    budget = the(installed(name), "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], "minAvailable" in budget) == (1, False)


def test_the_pod_for_a_restore_is_as_careful_and_has_the_same_volume_and_image() -> None:
    whole = load_yaml((K8S / "volume" / "shell.yaml").read_text(encoding="utf-8"))
    shell = whole["spec"]
    [there], here = shell["containers"], container("observe")
    assert (there["image"], there["securityContext"]) == (here["image"], here["securityContext"])
    assert shell["securityContext"].items() <= pod("observe")["securityContext"].items()
    assert shell["volumes"] == [v for v in pod("observe")["volumes"] if v["name"] == "data"]
    assert there["volumeMounts"] == [m for m in here["volumeMounts"] if m["name"] == "data"]
    assert (
        "labels" not in whole["metadata"]
    )  # or the wait for our own pod to be gone, and the Service, would take it for ours


def test_a_restore_in_the_cluster_puts_the_copy_in_place_of_the_ledger_and_its_log(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    [script] = re.findall(r"-- sh -c '(cd /var/lib.*?)' < backup\.db", page)
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (tmp_path / name).write_bytes(b"old")
    script = script.replace("/var/lib/gpu-autoscaler", str(tmp_path))
    subprocess.run(["sh", "-c", script], input=b"the copy", check=True, timeout=60)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"ledger.db": b"the copy"}


def test_one_replica_is_replaced_and_three_are_rolled() -> None:
    one, three = (the(installed(name), "Deployment")["spec"] for name in ("observe", "ha"))
    assert (one["replicas"], one["strategy"]) == (1, {"type": "Recreate"})
    assert (three["replicas"], three["strategy"]["type"]) == (3, "RollingUpdate")


# --- monitoring -------------------------------------------------------------------------------------------


def test_every_rule_is_in_a_prometheus_rule_and_in_the_config_map() -> None:
    objects = [o for o in installed("kube-prometheus-stack") if o["kind"] == "PrometheusRule"]
    assert len(objects) == len(RULE_FILES)
    bodies = [rule for o in objects for group in o["spec"]["groups"] for rule in group["rules"]]
    by_text = the(installed("plain-prometheus"), "ConfigMap", "gpu-autoscaler-rules")["data"].values()
    others = [rule for text in by_text for group in load_yaml(text)["groups"] for rule in group["rules"]]
    expected = _sorted([rule.body for rule in EVERY_RULE])
    assert _sorted(bodies) == _sorted(others) == expected


def _sorted(rules: list[JSON]) -> list[str]:
    return sorted(json.dumps(rule, sort_keys=True) for rule in rules)


def test_prometheus_of_the_chart_takes_up_all_that_is_for_it() -> None:
    objects = [o for o in installed("kube-prometheus-stack") if o["kind"] in ("PrometheusRule", "ServiceMonitor")]
    assert {o["metadata"]["labels"]["release"] for o in objects} == {"kube-prometheus-stack"}
    dashboards = [o for o in read(helm("--values", EXAMPLE)) if o["metadata"]["name"].endswith("-dashboard")]
    assert [o["metadata"]["labels"]["grafana_dashboard"] for o in dashboards] == ["1"] * 5
    assert max(len(str(o["data"])) for o in dashboards) < 1024 * 1024 / 2
    assert _data(dashboards) == _data(made_of("dashboards"))


def _data(config_maps: Iterable[JSON]) -> dict[str, dict[str, str]]:
    """Return what each holds, without the ends of lines that YAML blocks add."""
    return {o["metadata"]["name"]: {k: v.strip() for k, v in o["data"].items()} for o in config_maps}


def test_the_service_is_scraped_and_called_by_its_name() -> None:
    service, monitor = the(installed("observe"), "Service"), the(installed("kube-prometheus-stack"), "ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["endpoints"]
    [port] = service["spec"]["ports"]
    assert (endpoint["port"], endpoint["honorLabels"]) == (port["name"], True)
    [receiver] = the(installed("kube-prometheus-stack"), "AlertmanagerConfig")["spec"]["receivers"]
    [webhook] = receiver["webhookConfigs"]
    where = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc:{port['port']}"
    assert webhook["url"] == f"http://{where}/webhook"


def test_alertmanager_and_the_pod_read_the_same_token() -> None:
    [receiver] = the(installed("kube-prometheus-stack"), "AlertmanagerConfig")["spec"]["receivers"]
    sent = receiver["webhookConfigs"][0]["httpConfig"]["authorization"]["credentials"]
    [mounted, _] = [s["name"] for v in pod("observe")["volumes"] if v["name"] == "tokens" for s in mounted_secrets(v)]
    [path] = [v["value"] for v in container("observe")["env"] if v["name"] == "GPU_AUTOSCALER_WEBHOOK_TOKEN_FILE"]
    assert (sent["name"], sent["key"]) == (mounted, path.rpartition("/")[2])


def _scrape() -> str:
    return str(the(installed("plain-prometheus"), "ConfigMap", "gpu-autoscaler-scrape")["data"]["gpu-autoscaler.yml"])


def test_prometheus_takes_the_scrape_jobs_and_they_are_all_but_its_own(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text(_scrape(), encoding="utf-8")
    ran = run("promtool", "check", "config", "--lint=none", tmp_path / "prometheus.yml")
    assert ran.returncode == 0, ran.stderr
    whole = load_yaml((ROOT / "rules" / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert load_yaml(_scrape())["scrape_configs"] == [j for j in whole if j["job_name"] not in OWN_JOBS]


@pytest.mark.parametrize("name", ["dcgm-exporter", "gpu-autoscaler"])
def test_each_that_is_several_is_found_by_the_name_that_the_scrape_job_asks_for(name: str) -> None:
    service = the(installed("plain-prometheus"), "Service", f"{name}-headless")
    assert service["spec"]["clusterIP"] == "None"  # one address for each, not one for all
    [job] = [j for j in load_yaml(_scrape())["scrape_configs"] if j["job_name"] == name]
    [asked] = job["dns_sd_configs"]
    where = f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc.cluster.local"
    assert (asked["names"], asked["port"]) == ([where], service["spec"]["ports"][0]["port"])


def test_a_pod_whose_database_is_away_is_scraped_too() -> None:
    service = the(installed("plain-prometheus"), "Service", "gpu-autoscaler-headless")
    assert service["spec"]["publishNotReadyAddresses"]
    labels = the(installed("ha"), "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    selected = the(installed("kube-prometheus-stack"), "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert not selected.items() <= service["metadata"].get("labels", {}).items()  # each would be scraped twice


def test_kube_state_metrics_is_told_what_the_installation_asks_for() -> None:
    text = (K8S / "install" / "values-kube-prometheus-stack.yaml").read_text(encoding="utf-8")
    metrics = load_yaml(text)["kube-state-metrics"]
    asked = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert f"--metric-labels-allowlist={metrics['metricLabelsAllowlist'][0]}" in asked
    assert all(flag in asked for flag in metrics["extraArgs"])


def test_dcgm_is_scraped_without_the_labels_of_the_exporters_own_pod() -> None:
    spec = the(installed("kube-prometheus-stack"), "ServiceMonitor", "gpu-autoscaler-dcgm")["spec"]
    assert spec["namespaceSelector"] == {"matchNames": ["gpu-operator"]}
    assert [(e["port"], e["honorLabels"]) for e in spec["endpoints"]] == [("gpu-metrics", False)]
