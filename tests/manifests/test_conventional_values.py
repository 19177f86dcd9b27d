"""The values that most charts have under the same names: what each makes, and what none of them can change."""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.lint import load_yaml, none_of
from tests.manifests.built import KUBERNETES, ROOT, custom_mistakes, is_custom, mistakes, read, the
from tests.rules.files import run
from tools.install_manifests import CHART, EXAMPLE, NotRendered, helm

JSON = dict[str, Any]
NAME = "app.kubernetes.io/name"
DIGEST = f"sha256:{'0a' * 32}"
ADMITTED = {
    "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}],
    "ports": [{"protocol": "TCP", "port": 8080}],
}
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
NODE = {"key": "metadata.name", "operator": "NotIn", "values": ["tired"]}
PREFERRED = [{"weight": 1, "preference": {"matchExpressions": [ZONE]}}]
APART = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname"}]}
GIVEN: JSON = {
    "fullnameOverride": "scaler",
    "commonLabels": {"team": "platform"},
    "podLabels": {"tier": "control"},
    "podAnnotations": {"example.com/scrape": "no"},
    "image": {"repository": "ghcr.example/scaler", "tag": "9", "digest": DIGEST, "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "pull"}],
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"operator": "Exists"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [ZONE]}, {"matchFields": [NODE]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": PREFERRED,
        },
        "podAntiAffinity": APART,
    },
    "priorityClassName": "platform-critical",
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
    "serviceAccount": {"create": True, "name": "scaling", "annotations": {"example.com/role": "gpu"}},
    "service": {"type": "NodePort", "port": 80, "annotations": {"example.com/lb": "internal"}},
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "annotations": {"cert-manager.io/issuer": "letsencrypt"},
        "hosts": [
            {"host": "gpu.example.com"},
            {"host": "gpu.example.org", "paths": [{"path": "/gpu: #1", "pathType": "Exact"}]},
        ],
        "tls": [{"secretName": "gpu-tls", "hosts": ["gpu.example.com"]}],
    },
    "networkPolicy": {"extraIngress": [ADMITTED]},
    "persistence": {"size": "7Gi", "storageClass": "fast"},
    "serviceMonitor": {"labels": {"prometheus": "main"}, "interval": "30s"},
    "rules": {"labels": {"prometheus": "rules"}},
}


def values_file(folder: Path, values: JSON) -> Path:
    """Return a file in *folder* with *values*."""
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    return file


def rendered(values: JSON, *arguments: str) -> tuple[JSON, ...]:
    """Return the objects that the example's values with *values* make."""
    text = yaml.safe_dump(values)
    return tuple(read(helm("--values", EXAMPLE, "--values", "-", *arguments, text=text)))


def made(values: JSON, *arguments: str) -> tuple[JSON, ...]:
    """Return the objects that *values* make, without rules and dashboards, which take most of the time."""
    return rendered({**values, "rules": {"enabled": False}, "dashboards": {"enabled": False}}, *arguments)


@cache
def everything() -> tuple[JSON, ...]:
    """Return the objects of all conventional values at once, in mode act. Not to be changed."""
    return rendered(GIVEN, "--set", "mode=act", "--kube-version", "1.36.0")


def pod() -> JSON:
    """Return the pod's template."""
    template: JSON = the(everything(), "Deployment", "scaler")["spec"]["template"]
    return template


def test_all_of_them_fit_the_schemas_of_kubernetes_and_the_crds() -> None:
    none_of(
        wrong for o in everything() for wrong in ([mistakes(o, KUBERNETES[-1])] if not is_custom(o) else ()) if wrong
    )
    none_of(wrong for o in everything() if is_custom(o) for wrong in custom_mistakes(o))


def test_helm_lint_finds_nothing_to_say_against_them(tmp_path: Path) -> None:
    ran = run("helm-4", "lint", "--strict", CHART, "--values", EXAMPLE, "--values", values_file(tmp_path, GIVEN))
    assert (ran.returncode, "[ERROR]" in ran.stdout, "[WARNING]" in ran.stdout) == (0, False, False), ran.stdout


def test_every_conventional_value_is_tried_here() -> None:
    values = load_yaml((CHART / "values.yaml").read_text(encoding="utf-8"))
    own = {"mode", "pools", "config", "publicUrl", "secrets", "ha", "monitoring", "monitoringNamespace", "dcgm"}
    own |= {"prometheusRelease", "prometheusUrl", "alertmanagerUrls", "alertmanagerConfig", "dashboards", "doctor"}
    own |= {"runsOn", "rights", "actRights", "createNamespace", "resources"}
    alone = {"rbac", "nameOverride"}  # by tests of their own
    assert values.keys() - own == GIVEN.keys() | alone


def test_the_labels_are_on_every_object_and_on_the_pods() -> None:
    none_of(o["metadata"]["name"] for o in everything() if o["metadata"]["labels"].get("team") != "platform")
    labels = {NAME: "gpu-autoscaler", "app.kubernetes.io/instance": "gpu-autoscaler"}
    assert pod()["metadata"]["labels"] == {**labels, "team": "platform", "tier": "control"}
    assert pod()["metadata"]["annotations"]["example.com/scrape"] == "no"
    assert "gpu-autoscaler.io/configuration" in pod()["metadata"]["annotations"]
    assert the(everything(), "Deployment", "scaler")["spec"]["selector"]["matchLabels"] == {NAME: "gpu-autoscaler"}


@pytest.mark.parametrize("value", ["commonLabels", "podLabels", "serviceMonitor.labels"])
@pytest.mark.parametrize("key", [NAME, "app.kubernetes.io/instance", "helm.sh/chart"])
def test_a_label_that_selectors_or_helm_need_is_not_replaced(value: str, key: str) -> None:
    with pytest.raises(NotRendered) as refused:
        made({value.split(".")[0]: {"labels": {key: "mine"}} if "." in value else {key: "mine"}})
    assert f"'/{value.replace('.', '/')}/{key.replace('/', '~1')}': false schema" in str(refused.value)


def test_the_image_is_the_one_of_the_digest_in_every_pod() -> None:
    for spec in (pod()["spec"], the(everything(), "Pod", "scaler-test")["spec"]):
        assert [(c["image"], c["imagePullPolicy"]) for c in spec["containers"]] == [
            (f"ghcr.example/scaler@{DIGEST}", "Always")
        ]
        assert spec["imagePullSecrets"] == [{"name": "pull"}]


def test_the_pod_takes_what_is_given_for_it() -> None:
    spec = pod()["spec"]
    [container] = spec["containers"]
    assert spec["nodeSelector"] == GIVEN["nodeSelector"]
    assert spec["tolerations"] == GIVEN["tolerations"]
    assert container["env"][-1:] == GIVEN["extraEnv"]
    assert spec["volumes"][-1:] == GIVEN["extraVolumes"]
    assert container["volumeMounts"][-1:] == GIVEN["extraVolumeMounts"]
    assert spec["priorityClassName"] == "platform-critical"
    assert [o for o in everything() if o["kind"] == "PriorityClass"] == []


# --- never on a GPU node ----------------------------------------------------------------------------------


def terms(spec: JSON) -> list[JSON]:
    """Return the terms of which a node must match one."""
    found: list[JSON] = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return found


def test_an_affinity_is_added_to_what_keeps_the_pods_off_gpu_nodes() -> None:
    [ours] = terms(the(made({}), "Deployment")["spec"]["template"]["spec"])
    for spec in (pod()["spec"], the(everything(), "Pod", "scaler-test")["spec"]):
        assert terms(spec) == [
            {"matchExpressions": [*ours["matchExpressions"], ZONE]},
            {"matchExpressions": ours["matchExpressions"], "matchFields": [NODE]},
        ]
        affinity = spec["affinity"]
        assert affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == PREFERRED
        assert affinity["podAntiAffinity"] == APART


@pytest.mark.parametrize("affinity", [{}, {"nodeAffinity": {}}, {"podAntiAffinity": APART}], ids=str)
def test_without_terms_of_ones_own_the_charts_keep_the_pod_off_gpu_nodes(affinity: JSON) -> None:
    [term] = terms(the(made({"affinity": affinity}), "Deployment")["spec"]["template"]["spec"])
    assert [e["operator"] for e in term["matchExpressions"]] == ["DoesNotExist", "NotIn"]


def test_an_id_of_digits_keeps_the_pod_off_its_pool() -> None:
    [term] = terms(
        the(made({"pools": [{"civo_pool_id": 12345678, "max_nodes": 1}]}), "Deployment")["spec"]["template"]["spec"]
    )
    assert term["matchExpressions"][-1]["values"] == ["12345678"]


def test_an_empty_list_of_terms_does_not_open_gpu_nodes() -> None:
    required: JSON = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
    [term] = terms(the(made({"affinity": {"nodeAffinity": required}}), "Deployment")["spec"]["template"]["spec"])
    assert [e["operator"] for e in term["matchExpressions"]] == ["DoesNotExist", "NotIn"]


# --- accounts and rights ----------------------------------------------------------------------------------


def test_every_right_is_the_named_accounts() -> None:
    account = the(everything(), "ServiceAccount", "scaling")
    assert account["metadata"]["annotations"] == {"example.com/role": "gpu"}
    assert pod()["spec"]["serviceAccountName"] == "scaling"
    subjects = [s["name"] for o in everything() if o["kind"].endswith("Binding") for s in o.get("subjects", ())]
    assert set(subjects) == {"scaling"}
    assert len(subjects) == 4
    [condition] = the(everything(), "ValidatingAdmissionPolicy", "scaler")["spec"]["matchConditions"]
    assert condition["expression"].endswith(":scaling'")


def test_rights_and_account_can_be_left_to_others() -> None:
    objects = made({"rbac": {"create": False}, "serviceAccount": {"create": False, "name": "theirs"}, "mode": "act"})
    left = {o["kind"] for o in objects}
    assert not left & {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    assert not {kind for kind in left if kind.startswith("ValidatingAdmissionPolicy")}
    assert the(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "theirs"


def test_no_account_at_all_is_refused() -> None:
    with pytest.raises(NotRendered, match=r"serviceAccount\.name: name the account to run as"):
        made({"serviceAccount": {"create": False}})


# --- network ----------------------------------------------------------------------------------------------


def test_the_service_is_called_by_its_own_port() -> None:
    service = the(everything(), "Service", "scaler")
    assert service["metadata"]["annotations"] == {"example.com/lb": "internal"}
    assert (service["spec"]["type"], service["spec"]["ports"]) == (
        "NodePort",
        [{"name": "http", "port": 80, "targetPort": "http"}],
    )
    [receiver] = the(everything(), "AlertmanagerConfig", "scaler")["spec"]["receivers"]
    assert receiver["webhookConfigs"][0]["url"] == "http://scaler.gpu-autoscaler.svc:80/webhook"
    [container] = the(everything(), "Pod", "scaler-test")["spec"]["containers"]
    assert {"name": "GPU_AUTOSCALER_URL", "value": "http://scaler.gpu-autoscaler.svc:80"} in container["env"]


def test_the_ingress_leads_to_the_service_and_links_lead_to_the_ingress() -> None:
    ingress = the(everything(), "Ingress", "scaler")
    assert ingress["metadata"]["annotations"] == GIVEN["ingress"]["annotations"]
    assert ingress["spec"]["ingressClassName"] == "nginx"
    assert ingress["spec"]["tls"] == GIVEN["ingress"]["tls"]
    backend = {"service": {"name": "scaler", "port": {"name": "http"}}}
    assert [(rule["host"], rule["http"]["paths"]) for rule in ingress["spec"]["rules"]] == [
        ("gpu.example.com", [{"path": "/", "pathType": "Prefix", "backend": backend}]),
        ("gpu.example.org", [{"path": "/gpu: #1", "pathType": "Exact", "backend": backend}]),
    ]
    configuration = load_yaml(the(everything(), "ConfigMap", "scaler")["data"]["config.yaml"])
    assert configuration["public_url"] == "https://gpu.example.com"
    assert "https://gpu.example.com/docs/runbooks/" in json.dumps(everything())


def test_the_public_url_that_is_set_comes_before_the_ingress() -> None:
    def url(**values: str) -> str:
        ingress = {"enabled": True, "hosts": [{"host": "a.example.com"}]}
        configuration = the(made({"ingress": ingress, **values}), "ConfigMap")["data"]["config.yaml"]
        return str(load_yaml(configuration)["public_url"])

    assert url() == "http://a.example.com"
    assert url(publicUrl="https://b.example.com/") == "https://b.example.com"


def test_the_network_policy_admits_the_controller_or_is_left_out() -> None:
    policy = the(everything(), "NetworkPolicy", "scaler")["spec"]
    assert policy["ingress"][1:] == [ADMITTED]
    assert [o for o in made({"networkPolicy": {"enabled": False}}) if o["kind"] == "NetworkPolicy"] == []


# --- volume and monitoring --------------------------------------------------------------------------------


def claims(objects: tuple[JSON, ...]) -> list[str]:
    """Return the claims that the Deployment's pod mounts."""
    [deployment] = [o for o in objects if o["kind"] == "Deployment"]
    volumes = deployment["spec"]["template"]["spec"]["volumes"]
    return [v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v]


def test_the_volume_is_as_it_is_asked_for() -> None:
    claim = the(everything(), "PersistentVolumeClaim", "scaler")
    assert claims(everything()) == ["scaler"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"]["storage"] == "7Gi"


def test_a_class_of_a_dash_is_no_class() -> None:
    claim = the(made({"persistence": {"storageClass": "-"}}), "PersistentVolumeClaim", "gpu-autoscaler")
    assert claim["spec"]["storageClassName"] == ""


def test_a_claim_of_ones_own_is_mounted_and_no_other_is_made() -> None:
    objects = made({"persistence": {"existingClaim": "ours"}})
    assert claims(objects) == ["ours"]
    assert [o for o in objects if o["kind"] == "PersistentVolumeClaim"] == []


def test_monitors_and_rules_have_labels_of_ones_own_beside_the_release() -> None:
    monitors = [o for o in everything() if o["kind"] == "ServiceMonitor"]
    assert len(monitors) == 2
    for monitor in monitors:
        labels = {"prometheus": "main", "release": "kube-prometheus-stack"}
        assert labels.items() <= monitor["metadata"]["labels"].items()
        assert [e["interval"] for e in monitor["spec"]["endpoints"]] == ["30s"]
    rules = [o["metadata"]["labels"] for o in everything() if o["kind"] == "PrometheusRule"]
    assert {(labels["prometheus"], labels["release"]) for labels in rules} == {("rules", "kube-prometheus-stack")}


def repeated(node: yaml.Node) -> Iterator[str]:
    """Yield each key that a mapping in *node* has twice: Helm and parsers take one of its values without a word."""
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value]
        yield from (key for key in keys if keys.count(key) > 1)
        children = [value for _, value in node.value]
    else:
        children = node.value if isinstance(node, yaml.SequenceNode) else []
    for child in children:
        yield from repeated(child)


def test_of_a_label_that_is_given_twice_the_closer_one_counts() -> None:
    labels = {"release": "x", "team": "all"}
    given = {"commonLabels": labels, "podLabels": {"team": "pods"}, "serviceMonitor": {"labels": {"team": "metrics"}}}
    text = helm("--values", EXAMPLE, "--values", "-", "--set", "dashboards.enabled=false", text=yaml.safe_dump(given))
    none_of(key for node in yaml.compose_all(text, Loader=yaml.CSafeLoader) for key in repeated(node))
    objects = tuple(read(text))
    assert the(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]["team"] == "pods"
    monitors = [o["metadata"]["labels"] for o in objects if o["kind"] == "ServiceMonitor"]
    assert [(one["release"], one["team"]) for one in monitors] == [("kube-prometheus-stack", "metrics")] * 2


# --- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        {"mode": "act", "rights": {"mayWait": True}},
        {"monitoring": "plain", "dcgm": {"scrape": False}},
        {"runsOn": "vm"},
    ],
    ids=["act", "plain", "vm"],
)
def test_two_releases_with_names_of_their_own_share_no_object(values: JSON) -> None:
    def objects(name: str) -> tuple[JSON, ...]:
        return made({**values, "fullnameOverride": name}, "--namespace", f"in-{name}", "--kube-version", "1.36.0")

    def keys(name: str) -> set[tuple[str, str, str]]:
        return {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]) for o in objects(name)}

    one, other = keys("one"), keys("other")
    assert len(one) == len(other) > 5
    assert one & other == set()
    told = json.dumps([o for o in objects("one") if o["kind"] in ("AlertmanagerConfig", "ServiceMonitor", "Secret")])
    assert "http://gpu-autoscaler." not in told


def test_with_another_name_the_scrape_job_stays_the_one_of_the_rules() -> None:
    monitor = the(everything(), "ServiceMonitor", "scaler")
    service = the(everything(), "Service", "scaler")
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "gpu-autoscaler"
    jobs = (ROOT / "rules" / "receiver.alerts.yaml").read_text(encoding="utf-8")
    assert 'up{job="gpu-autoscaler"}' in jobs
    plain = made({"monitoring": "plain", "fullnameOverride": "scaler"}, "--namespace", "g")
    scrape = the(plain, "ConfigMap", "scaler-scrape")["data"]["gpu-autoscaler.yml"]
    [job] = [job for job in load_yaml(scrape)["scrape_configs"] if job["job_name"] == "gpu-autoscaler"]
    headless = the(plain, "Service", "scaler-headless")["metadata"]
    assert job["dns_sd_configs"][0]["names"] == [f"{headless['name']}.{headless['namespace']}.svc.cluster.local"]


def test_the_notes_name_the_objects_and_the_host_that_there_are(tmp_path: Path) -> None:
    given = ("--values", EXAMPLE, "--values", values_file(tmp_path, GIVEN))
    ran = run("helm-4", "install", "x", CHART, "--dry-run=client", "--namespace", "g", *given)
    assert ran.returncode == 0, ran.stderr
    notes = ran.stdout.partition("NOTES:")[2]
    assert "exec deployment/scaler --" in notes
    assert "https://gpu.example.com" in notes
    assert "deployment/gpu-autoscaler" not in notes


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"nameOverride": "gpu"}, "gpu-autoscaler"),  # the release's name has it
        ({"nameOverride": "scaler2"}, "gpu-autoscaler-scaler2"),
        ({"nameOverride": "scaler2", "fullnameOverride": "x"}, "x"),
    ],
)
def test_the_name_follows_the_release_where_that_is_asked_for(values: JSON, name: str) -> None:
    assert the(made(values), "Deployment", name)


# --- values until 0.2 -------------------------------------------------------------------------------------


def test_values_written_for_the_first_chart_go_on_working() -> None:
    before = {
        "image": {"repository": "r.example.org/g", "pullSecrets": ["old"]},
        "storage": {"size": "9Gi", "storageClass": "slow"},
        "networkPolicy": {"extraEgress": [{"ports": [{"port": 10902}]}]},
    }
    objects = made(before)
    claim = the(objects, "PersistentVolumeClaim")["spec"]
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("slow", "9Gi")
    assert claims(objects) == ["gpu-autoscaler"]
    assert the(objects, "Deployment")["spec"]["template"]["spec"]["imagePullSecrets"] == [{"name": "old"}]
    assert the(objects, "NetworkPolicy")["spec"]["egress"][-1] == {"ports": [{"port": 10902}]}
