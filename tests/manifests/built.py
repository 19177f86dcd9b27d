"""The objects of k8s, as files or as kubectl and helm build them, and what schemas have against an object."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import referencing
from jsonschema.exceptions import best_match

from tests.lint import load_yaml, load_yamls
from tests.rules.files import binary
from tools.fetch_kubectl import VERSIONS
from tools.install_manifests import FILES

JSON = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
K8S = ROOT / "k8s"
SCHEMAS = Path(__file__).parent / "schemas"
OF_KUBERNETES = Path(str(files("kubernetes_validate"))) / "kubernetes-json-schema"
INSTALLED = tuple(FILES)  # the files of k8s/install
OLD, NEW = VERSIONS
BY_HAND = ("alertmanager/secret.yaml", "volume/shell.yaml")
BUILT = sorted(
    {str(f.parent.relative_to(ROOT)) for top in ("k8s", "dashboards") for f in (ROOT / top).rglob("kustomization.yaml")}
)  # what the oldest and a new kubectl build, by test_schemas.py
SINCE = {"ValidatingAdmissionPolicy": "1.30", "ValidatingAdmissionPolicyBinding": "1.30"}
KUBERNETES = tuple(f"1.{minor}" for minor in range(28, 37))


def build(folder: Path, kubectl: str) -> str:
    """Return what ``kubectl kustomize`` of the version *kubectl* makes of *folder*; fails the test when it refuses."""
    program = binary(f"kubectl-{kubectl}")
    ran = subprocess.run([program, "kustomize", folder], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, f"kubectl {kubectl} does not build {folder}: {ran.stderr}"
    return ran.stdout


@cache
def made_of(folder: str, kubectl: str = NEW) -> tuple[JSON, ...]:
    """Return the objects that kubectl builds of *folder*, a path from the project's root. Not to be changed."""
    return tuple(read(build(ROOT / folder, kubectl)))


@cache
def installed(name: str) -> tuple[JSON, ...]:
    """Return the objects of the file *name* of k8s/install. Not to be changed."""
    return tuple(read((K8S / "install" / f"{name}.yaml").read_text(encoding="utf-8")))


def read(text: str) -> Iterator[JSON]:
    """Yield the objects in *text*, without empty labels and annotations, which the old kustomize writes."""
    for found in load_yamls(text):
        for key in ("labels", "annotations"):
            if not found["metadata"].get(key, True):
                del found["metadata"][key]
        yield found


def named(objects: tuple[JSON, ...]) -> dict[tuple[str, str, str], JSON]:
    """Return *objects* by kind, namespace and name."""
    return {(o["kind"], o["metadata"].get("namespace", ""), o["metadata"]["name"]): o for o in objects}


def the(objects: tuple[JSON, ...], kind: str, name: str = "gpu-autoscaler") -> JSON:
    """Return the one object of *kind* with *name*."""
    [found] = [o for o in objects if (o["kind"], o["metadata"]["name"]) == (kind, name)]
    return found


def every_object() -> list[JSON]:
    """Return the objects of every file to install, and those that are applied on request or by hand, each once."""
    objects = [o for name in INSTALLED for o in installed(name)]
    objects += [o for folder in ("k8s/doctor/smoke", "k8s/outside", "dashboards") for o in made_of(folder)]
    found = {json.dumps(o, sort_keys=True): o for o in objects}
    return [*found.values(), *(load_yaml((K8S / name).read_text(encoding="utf-8")) for name in BY_HAND)]


def is_custom(found: Mapping[str, Any]) -> bool:
    """True for an object of a kind that a CRD brings, of which a schema is kept here."""
    return (SCHEMAS / f"{found['kind']}.json").exists()


@cache
def _definitions(folder: Path) -> referencing.Registry:
    contents = json.loads((folder / "_definitions.json").read_text(encoding="utf-8"))  # a megabyte and a half
    return referencing.Resource.from_contents(contents) @ referencing.Registry()


@cache
def _schema(kind: str, api: str, version: str) -> jsonschema.Draft202012Validator:
    """Return what checks objects of *kind* by Kubernetes' own strict schema, read once."""
    folder = OF_KUBERNETES / f"v{version}.0-local-strict"
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", api)  # rbac.authorization.k8s.io/v1 is rbac-v1
    schema = json.loads((folder / f"{kind.lower()}-{group}.json").read_text(encoding="utf-8"))
    registry = referencing.Resource.from_contents(schema) @ _definitions(folder)
    return jsonschema.Draft202012Validator(schema, registry=registry)


def is_served(found: JSON, version: str) -> bool:
    """False for a kind that Kubernetes has only after *version*."""
    return version in KUBERNETES[KUBERNETES.index(SINCE.get(found["kind"], KUBERNETES[0])) :]


def mistakes(found: JSON, version: str) -> str:
    """Return what is wrong with *found* by Kubernetes' own schema of *version*, strictly; empty when nothing is."""
    try:
        schema = _schema(found["kind"], found["apiVersion"], version)
    except FileNotFoundError:
        return f"{found['kind']} of {found['apiVersion']}: Kubernetes {version} has no such kind"
    error = best_match(schema.iter_errors(found))
    return f"{found['kind']} {'.'.join(map(str, error.path))}: {error.message}" if error else ""


@cache
def custom_schema(file: Path) -> jsonschema.Draft202012Validator:
    """Return what checks objects by the schema in *file*, read once."""
    return jsonschema.Draft202012Validator(json.loads(file.read_text(encoding="utf-8")))


def custom_mistakes(found: JSON) -> list[str]:
    """Return what is wrong with *found* by the schema of its CRD."""
    errors = custom_schema(SCHEMAS / f"{found['kind']}.json").iter_errors(found)
    return [f"{found['kind']} {'.'.join(map(str, error.path))}: {error.message}" for error in errors]


def mounted_secrets(volume: dict[str, Any]) -> list[dict[str, Any]]:
    """The Secrets that a volume of a pod mounts, each with its `name`."""
    alone = volume.get("secret")
    projected = [source["secret"] for source in volume.get("projected", {}).get("sources", ()) if "secret" in source]
    return [{**alone, "name": alone["secretName"]}] if alone else projected


def secrets_read(objects: Sequence[JSON]) -> set[tuple[str, str]]:
    """Return name and key of every Secret that the Deployment in *objects* reads."""
    spec = the(tuple(objects), "Deployment")["spec"]["template"]["spec"]
    [container] = spec["containers"]
    found = set()
    for variable in container["env"]:
        if "valueFrom" in variable:
            asked = variable["valueFrom"]["secretKeyRef"]
            found.add((asked["name"], asked["key"]))
        elif variable["name"].endswith("_FILE"):
            folder, _, file = variable["value"].rpartition("/")
            [mount] = [m["name"] for m in container["volumeMounts"] if m["mountPath"] == folder]
            [volume] = [v for v in spec["volumes"] if v["name"] == mount]
            found |= {(secret["name"], file) for secret in mounted_secrets(volume)}
    return found
