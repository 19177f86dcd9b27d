"""What the Dockerfile says, without building it; `make image-check` builds and runs it."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from campaigns.image.tree import DATA, USER, VENV
from receiver.config.environment import DATABASE, LISTEN, VARIABLES
from receiver.server import gunicorn_conf
from tests.manifests.built import installed, the
from tools.image.engines import ENGINES, NoEngine, build_words, usable_engine

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile in order, each with what it says; continued lines are joined."""
    plain = re.sub(r"\\\n\s*", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    split = (line.split(maxsplit=1) for line in plain.splitlines() if line.strip())
    return [(words[0], words[1]) for words in split]


FILE = instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))
STAGES = [number for number, (name, _) in enumerate(FILE) if name == "FROM"]
FIRST, LAST = FILE[STAGES[0] : STAGES[1]], FILE[STAGES[1] :]


def said(name: str, stage: list[tuple[str, str]] = LAST) -> list[str]:
    return [what for instruction, what in stage if instruction == name]


def test_both_stages_begin_at_one_base_that_can_be_named() -> None:
    assert said("FROM", FILE) == ["${BASE} AS build", "${BASE}"]
    [base] = [what for name, what in FILE[: STAGES[0]] if name == "ARG"]
    image, _, tag = base.removeprefix("BASE=").rpartition(":")
    assert image == "docker.io/library/python"
    versions = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if c.startswith("Programming Language")]
    newest = max((v for v in versions if "." in v), key=lambda v: tuple(map(int, v.split("."))))
    assert re.fullmatch(rf"{re.escape(newest)}-slim-[a-z]+", tag)


def test_packages_are_installed_from_the_locks_with_their_hashes_and_never_compiled() -> None:
    installed = [what for what in said("RUN", FIRST) if '"install"' in what]
    [ours] = [what for what in installed if "civo-gpu-autoscaler" in what]
    assert '"--no-deps", "--no-index"' in ours
    others = [what for what in installed if what != ours]
    assert [re.findall(r"requirements/\w+\.lock", what) for what in others] == [
        ["requirements/run.lock"],
        ["requirements/build.lock"],
    ]
    assert all('"--require-hashes", "--only-binary=:all:"' in what for what in others)


def test_the_wheel_is_made_without_a_download() -> None:
    [made] = [what for what in said("RUN", FIRST) if '"wheel"' in what]
    assert '"--no-deps", "--no-index", "--no-build-isolation"' in made


def test_nothing_runs_in_the_final_stage() -> None:
    assert {name for name, _ in LAST} <= {
        "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "STOPSIGNAL", "USER",
        "VOLUME", "WORKDIR",
    }  # fmt: skip
    assert said("COPY") == [
        f"--from=build /{VENV} /{VENV}",
        f"--from=build --chown={USER}:{USER} /data /{DATA}",
    ]


def test_it_runs_as_a_number_that_is_not_root() -> None:
    assert said("USER") == [f"{USER}:{USER}"]


def test_what_is_started_is_the_program_itself_and_no_shell() -> None:
    assert [said("ENTRYPOINT"), said("CMD")] == [['["gpu-autoscaler"]'], ['["serve"]']]
    assert said("STOPSIGNAL") == ["SIGTERM"]
    assert all(name != "RUN" or what.startswith("[") for name, what in FILE)


def test_volume_port_and_variables_are_those_of_the_product() -> None:
    assert said("VOLUME") == [f"/{DATA}"]
    assert Path(DATABASE.removeprefix("sqlite:///")).parent == Path(f"/{DATA}")
    assert said("EXPOSE") == [LISTEN.rpartition(":")[2]]
    named = re.findall(r"\b((?:GPU_AUTOSCALER|CIVO)_\w+)=(\S+)", " ".join(said("ENV")))
    assert named == [("GPU_AUTOSCALER_CONFIG", "/etc/gpu-autoscaler/config.yaml")]
    assert {name for name, _ in named} <= set(VARIABLES)


def test_the_health_check_is_ours_and_not_a_shells() -> None:
    [check] = said("HEALTHCHECK")
    assert check.endswith('CMD ["python", "-m", "receiver.server.healthcheck"]')


def test_the_labels_say_what_it_is() -> None:
    labels = dict(re.findall(r'org\.opencontainers\.image\.([\w.]+)="([^"]*)"', " ".join(said("LABEL"))))
    project = PROJECT["project"]
    assert labels == {
        "title": project["name"],
        "description": project["description"],
        "version": "${VERSION}",
        "revision": "${REVISION}",
        "source": "${SOURCE}",
        "licenses": project["license"],
        "base.name": "${BASE}",
    }
    assert f"VERSION={project['version']}" in said("ARG")


def test_what_is_sent_to_the_engine_is_what_the_wheel_is_made_of_and_no_more() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert lines[1] == "*"
    copied = {word for what in said("COPY", FIRST) for word in what.split()[:-1]}
    assert kept == copied
    assert all((ROOT / name).exists() for name in kept)


def test_everything_that_is_no_code_is_in_the_wheel() -> None:
    files = [p for p in (ROOT / "receiver").rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    beside = [p for p in files if p.suffix != ".py"]
    [patterns] = PROJECT["tool"]["setuptools"]["package-data"].values()
    packed = {p for pattern in patterns for p in (ROOT / "receiver").glob(pattern)}
    assert [p.name for p in beside if p not in packed] == []


def test_every_page_of_the_documentation_is_in_the_wheel() -> None:
    """`receiver/web/docs` is a link to docs/: setuptools copies what it leads to."""
    [patterns] = PROJECT["tool"]["setuptools"]["package-data"].values()
    packed = {p.resolve() for pattern in patterns for p in (ROOT / "receiver").glob(pattern)}
    pages = set((ROOT / "docs").rglob("*.md"))
    assert pages
    assert pages <= packed


def test_each_engine_is_told_to_keep_the_health_check() -> None:
    words = {engine: build_words(engine, "tag", {"VERSION": "1"}) for engine in ENGINES}
    assert words["docker"] == ["build", "--build-arg", "VERSION=1", "--tag", "tag"]
    assert words["podman"] == ["build", "--format", "docker", "--build-arg", "VERSION=1", "--tag", "tag"]
    assert words["buildah"] == ["bud", *words["podman"][1:]]


def test_a_command_line_without_its_daemon_is_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoEngine, match="docker: Cannot connect to the Docker daemon; podman is not installed"):
        usable_engine()
    docker.write_text("#!/bin/sh\n")
    assert usable_engine() == "docker"


def test_the_manifests_run_the_image_as_it_is_made() -> None:
    deployment = the(installed("observe"), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    who = {pod["securityContext"][name] for name in ("runAsUser", "runAsGroup", "fsGroup")}
    assert who == {USER}
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    variables = dict(word.split("=", 1) for what in said("ENV") for word in what.split())
    assert {f"/{DATA}", "/tmp", str(Path(variables["GPU_AUTOSCALER_CONFIG"]).parent)} <= mounted
    assert [str(port["containerPort"]) for port in container["ports"]] == said("EXPOSE")
    assert container["command"] == [*json.loads(said("ENTRYPOINT")[0]), *json.loads(said("CMD")[0])]
    assert pod["terminationGracePeriodSeconds"] > gunicorn_conf.graceful_timeout
