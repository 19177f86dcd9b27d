"""The configurations of a stack's parts, written from a plan and from the files in `rules/`. Nothing is started."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from demo.plan import API_KEY, CLUSTER_ID, OPERATOR_TOKEN, REGION, WEBHOOK_TOKEN, Places, PoolPlan, StackPlan

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "rules"
OURS = ("CIVO_", "GPU_AUTOSCALER_", "KUBECONFIG", "KUBERNETES_", "GUNICORN_CMD_ARGS")
JSON = dict[str, Any]


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> JSON:
    """Return *base* with *over* laid over it: mappings key by key, all else replaced, None removes a key."""
    result = dict(base)
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = value
    return result


def simulator_config(plan: StackPlan, places: Places) -> JSON:
    """Return the simulator's file: nodes are usable about 8 s after they were asked for."""
    base: JSON = {
        "listen": places.address("simulator"),
        "seed": 7,
        "region": REGION,
        "cluster": {"id": CLUSTER_ID, "name": "demo"},
        "civo": {"api_key": API_KEY},
        "metrics": {"pod_labels": ["team", "project"]},
        "pools": [_simulated(pool) for pool in plan.pools],
        "timings": {
            "build": "4s",
            "boot": "1s",
            "driver": "3s",
            "image_pull": "500ms",
            "warmup": "1s",
            "delete": "2s",
            "node_lingers": "1s",
            "quota_lag": "5s",
            "finished_lingers": "10m",
        },
        "behaviour": {"granularity": plan.granularity},
        "price": {pool.size: float(pool.price) for pool in plan.pools},
    }
    return merged(base, plan.simulator)


def _simulated(pool: PoolPlan) -> JSON:
    resources = {"nvidia.com/gpu": pool.gpus} if pool.gpus else {}
    base = {"id": pool.id, "size": pool.size, "resources": resources, "count": pool.count}
    return merged(base, pool.simulator)


def prometheus_config(plan: StackPlan, places: Places) -> JSON:
    """Return Prometheus' file: the jobs that rules/prometheus.yml shows, and the rules in the stack's folder."""
    simulator = places.address("simulator")
    base: JSON = {
        "global": {
            "scrape_interval": plan.scrape,
            "scrape_timeout": plan.scrape,
            "evaluation_interval": plan.evaluation or "15s",
        },
        "rule_files": [str(places.folder / "rules" / "*.yaml")],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [places.address(a) for a in places.alertmanagers]}]}]
        },
        "scrape_configs": [
            {
                "job_name": "kube-state-metrics",
                "honor_labels": True,
                "metrics_path": "/metrics/kube-state-metrics",
                "static_configs": [{"targets": [simulator]}],
            },
            {
                "job_name": "dcgm-exporter",
                "honor_labels": False,
                "http_sd_configs": [{"url": f"http://{simulator}/sd/dcgm", "refresh_interval": "5s"}],
            },
            {"job_name": "gpu-autoscaler", "static_configs": [{"targets": [places.address("receiver")]}]},
            {
                "job_name": "alertmanager",
                "static_configs": [{"targets": [places.address(a) for a in places.alertmanagers]}],
            },
            {"job_name": "prometheus", "static_configs": [{"targets": [places.address("prometheus")]}]},
        ],
    }
    return merged(base, plan.prometheus)


def rule_files(plan: StackPlan) -> dict[str, JSON]:
    """Return the files of `rules/` by name; of their content only `interval` and, if asked for, one `for` differ."""
    files: dict[str, JSON] = {}
    for path in sorted(RULES.glob("*.yaml")):
        content: JSON = yaml.safe_load(path.read_text(encoding="utf-8"))
        for group in content["groups"]:
            if plan.evaluation is not None:
                group["interval"] = plan.evaluation
            for rule in group["rules"]:
                if plan.pending_for is not None and rule.get("alert") == "GpuPodsPending":
                    rule["for"] = plan.pending_for
        files[path.name] = content
    return files


def alertmanager_config(plan: StackPlan, places: Places) -> JSON:
    """Return rules/alertmanager.yml with this stack's address, token and timings."""
    config: JSON = yaml.safe_load((RULES / "alertmanager.yml").read_text(encoding="utf-8"))
    for receiver in config["receivers"]:
        for webhook in receiver.get("webhook_configs", ()):
            webhook["url"] = places.url("receiver") + "/webhook"
            webhook["http_config"]["authorization"]["credentials_file"] = str(places.token_file)
    scaling: JSON = {
        "group_wait": plan.group_wait,
        "group_interval": plan.group_interval,
        "repeat_interval": plan.repeat_interval,
    }
    heartbeat: JSON = {
        "group_interval": plan.heartbeat_group_interval,
        "repeat_interval": plan.heartbeat_repeat_interval,
    }
    for route in config["route"]["routes"]:
        if route["receiver"] != "gpu-autoscaler":
            continue
        beats = any("heartbeat" in m for m in route["matchers"])
        route.update({k: v for k, v in (heartbeat if beats else scaling).items() if v is not None})
    return config


def receiver_config(plan: StackPlan, places: Places) -> JSON:
    """Return the autoscaler's file."""
    base: JSON = {
        "mode": plan.mode,
        "tick": plan.tick,
        "warm_up": "0s",
        "kubernetes": {"watch": plan.watch},
        "prometheus": {"url": places.url("prometheus")},
        "alertmanager": {"urls": [places.url(a) for a in places.alertmanagers]},
        "billing": {"granularity": plan.granularity, "removal_margin": plan.removal_margin},
        "pools": [_autoscaled(pool) for pool in plan.pools if pool.autoscaled],
    }
    if plan.budget is not None:
        base["budget"] = dict(plan.budget)
    return merged(base, plan.receiver)


def _autoscaled(pool: PoolPlan) -> JSON:
    base = {
        "name": pool.name,
        "civo_pool_id": pool.id,
        "size": pool.size,
        "resources": {"nvidia.com/gpu": pool.gpus},
        "price_usd_per_hour": pool.price,
        "min_nodes": pool.min_nodes,
        "max_nodes": pool.max_nodes,
        "cooldown": {"grow": pool.cooldown_grow, "shrink": pool.cooldown_shrink},
        "idle_for": pool.idle_for,
        "provision_timeout": pool.provision_timeout,
    }
    return merged(base, pool.receiver)


def plain_environment() -> dict[str, str]:
    """Return this process' environment without what would reach the autoscaler or send loopback calls to a proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**kept, "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", "PYTHONUNBUFFERED": "1"}


def receiver_environment(plan: StackPlan, places: Places) -> dict[str, str]:
    """Return the autoscaler's environment."""
    named: dict[str, str | None] = {
        "CIVO_API_KEY": API_KEY,
        "CIVO_API_URL": places.url("simulator"),
        "CIVO_REGION": REGION,
        "CIVO_CLUSTER_ID": CLUSTER_ID,
        "KUBECONFIG": str(places.kubeconfig),
        "GPU_AUTOSCALER_CONFIG": str(places.config("receiver")),
        "GPU_AUTOSCALER_LISTEN": places.address("receiver"),
        "GPU_AUTOSCALER_URL": places.url("receiver"),
        "GPU_AUTOSCALER_WEBHOOK_TOKEN": WEBHOOK_TOKEN,
        "GPU_AUTOSCALER_OPERATOR_TOKEN": OPERATOR_TOKEN,
        "GPU_AUTOSCALER_DATABASE_URL": f"sqlite:///{places.database}",
        **plan.environment,
    }
    return {**plain_environment(), **{k: v for k, v in named.items() if v is not None}}


def write_configs(plan: StackPlan, places: Places) -> None:
    """Write every file that the parts are started with into the stack's folder."""
    rules = places.folder / "rules"
    rules.mkdir(parents=True, exist_ok=True)
    for name, content in rule_files(plan).items():
        _write(rules / name, content)
    places.token_file.write_text(WEBHOOK_TOKEN, encoding="utf-8")
    _write(places.config("simulator"), simulator_config(plan, places))
    _write(places.config("prometheus"), prometheus_config(plan, places))
    _write(places.config("alertmanager"), alertmanager_config(plan, places))
    _write(places.config("receiver"), receiver_config(plan, places))


def _write(path: Path, content: JSON) -> None:
    path.write_text(yaml.safe_dump(content, sort_keys=False, width=1000), encoding="utf-8")
