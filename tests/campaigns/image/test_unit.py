"""systemd/: the unit starts what the product has, with variables that it reads and folders that it uses."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from campaigns.image.unit import FOLDER, UNIT, credentials, environment_file, lines, variables
from receiver.adapters.kubernetes.cluster import credentials as credentials_of
from receiver.cli.main import COMMANDS
from receiver.cli.serve import serve
from receiver.config.environment import DATABASE, SECRET, VARIABLES, read_environment
from receiver.server import gunicorn_conf
from tests.docs.commands import fenced
from tests.docs.pages import text_of
from tests.rules.files import binary
from tools.fetch_kubectl import VERSIONS

ROOT = Path(__file__).parents[3]
KNOWN = {*VARIABLES, *(f"{name}_FILE" for name in SECRET)}
NOT_OURS = {"PYTHONDONTWRITEBYTECODE"}
PAGE = text_of("docs/vm.md")
INSTALLING, RUNNING = PAGE.split("## Running it")


def test_it_starts_a_command_that_the_package_installs() -> None:
    [start] = lines("ExecStart")
    program, command = start.split()
    scripts = tomllib.loads(text_of("pyproject.toml"))["project"]["scripts"]
    assert Path(program).name in scripts
    assert command in COMMANDS
    assert f"python3 -m venv {Path(program).parents[1]}\n" in PAGE


def test_every_variable_is_one_that_the_product_reads() -> None:
    assert set(variables("/credentials")) - NOT_OURS <= KNOWN
    assert set(environment_file()) <= KNOWN
    assert environment_file()


def test_every_variable_that_must_be_set_is_set_by_unit_and_example(tmp_path: Path) -> None:
    for name in credentials():
        (tmp_path / name).write_text(f"{name}-of-the-tests")
    _, mistakes, warnings = read_environment({**environment_file(), **variables(str(tmp_path))})
    assert [*map(str, mistakes), *warnings] == []


def test_every_credential_is_handed_to_a_variable_and_comes_from_the_folder_of_the_page() -> None:
    named = set(re.findall(r"%d/([\w-]+)", "\n".join(lines("Environment"))))
    assert named == set(credentials())
    assert {str(Path(source).parent) for source in credentials().values()} == {FOLDER}
    assert [source for source in credentials().values() if source not in PAGE] == []


def test_secrets_are_no_variables() -> None:
    assert not set(SECRET) & {*variables("/credentials"), *environment_file()}


@pytest.mark.parametrize("umask", ["022", "077"])
def test_the_page_makes_every_secret_for_its_one_reader_in_a_folder_that_all_may_enter(
    umask: str, tmp_path: Path
) -> None:
    for name in ("kubectl", "openssl"):
        (tmp_path / name).write_text("#!/bin/sh\necho c2VjcmV0\n")
        (tmp_path / name).chmod(0o755)
    made = [line for line in fenced(INSTALLING) if f" {FOLDER}/" in line]
    etc = tmp_path / "etc"
    script = "\n".join([f"umask {umask}", *made]).replace(FOLDER, str(etc)).replace(" -o prometheus", "")
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["sh", "-euc", script], cwd=ROOT, env={"PATH": path}, check=True, timeout=30)
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in etc.iterdir()}
    assert modes == {Path(source).name: "0o600" for source in credentials().values()} | {"webhook-token": "0o400"}
    [owned] = [line for line in made if " -o prometheus" in line]
    assert owned.endswith(f" -o prometheus /dev/stdin {FOLDER}/webhook-token")  # Alertmanager's user
    assert oct(etc.stat().st_mode & 0o777) == "0o755"


def test_the_kubeconfig_of_the_page_has_the_token_and_the_certificate_of_the_secret(tmp_path: Path) -> None:
    [said] = [line for line in fenced(PAGE) if line.endswith("/kubeconfig")]
    template, address = re.findall(r"go-template-file=(\S+)|s#APISERVER#(\S+)#", said)
    made = [binary(f"kubectl-{min(VERSIONS)}"), "create", "secret", "generic", "any", "--dry-run=client"]
    given = [
        "--from-literal=token=eyJ.token",
        "--from-literal=ca.crt=PEM",
        "--from-literal=namespace=gpu-autoscaler",
        f"--output=go-template-file={template[0]}",
    ]
    ran = subprocess.run([*made, *given], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    file = tmp_path / "kubeconfig"
    file.write_text(ran.stdout.replace("APISERVER", address[1]))
    found = credentials_of(str(file))
    assert found.host == f"https://{address[1]}"
    assert [*found.api_key.values()] == ["Bearer eyJ.token"]
    assert Path(str(found.ssl_ca_cert)).read_text() == "PEM"


def test_the_page_installs_in_twelve_commands_without_a_script() -> None:
    said = list(fenced(INSTALLING))
    assert len(said) == 12
    assert [line for line in said if re.search(r"<<|\$\(|;|&&|\bexport\b|^\w+\(\)", line)] == []


def test_the_doctor_of_the_page_has_the_variables_of_the_service(tmp_path: Path) -> None:
    [*given, doctor] = fenced(RUNNING)
    for name in credentials():
        (tmp_path / name).write_text(f"{name}-of-the-tests")
    (tmp_path / "environment").write_text("\n".join(f"{k}={v}" for k, v in environment_file().items()))
    script = "\n".join([*given, "env -0"]).replace(FOLDER, str(tmp_path))
    ran = subprocess.run(["sh", "-euc", script], env={}, capture_output=True, text=True, check=True, timeout=30)
    there = dict(line.split("=", 1) for line in ran.stdout.strip("\0").split("\0"))
    _, mistakes, _ = read_environment({**there, **{k: str(tmp_path / v) for k, v in there.items() if "_FILE" in k}})
    assert [*map(str, mistakes)] == []
    assert {k: Path(v).name for k, v in variables("/c").items() if k not in NOT_OURS}.items() <= there.items()
    assert doctor == "/opt/gpu-autoscaler/bin/gpu-autoscaler doctor"


def test_the_environment_of_the_page_names_what_the_example_must_name() -> None:
    [shown] = re.findall(r"^```ini\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    there = dict(line.split("=", 1) for line in shown.splitlines())
    assert there.items() <= environment_file().items()
    assert {name for name in VARIABLES if name.startswith("CIVO_")} - set(SECRET) == there.keys()


def test_the_files_of_the_unit_are_those_of_the_page() -> None:
    assert lines("EnvironmentFile") == [f"{FOLDER}/environment"]
    assert variables("")["GPU_AUTOSCALER_CONFIG"] == f"{FOLDER}/config.yaml"
    assert f"`{FOLDER}/config.yaml`" in PAGE
    assert f"`{FOLDER}/environment`" in PAGE


def test_the_one_folder_that_it_may_write_to_is_that_of_the_database() -> None:
    [state] = lines("StateDirectory")
    assert f"sqlite:////var/lib/{state}/ledger.db" == DATABASE
    assert lines("ProtectSystem") == ["strict"]
    assert not lines("ReadWritePaths")


def test_gunicorn_has_its_grace_before_it_is_killed() -> None:
    [stop] = lines("TimeoutStopSec")
    assert int(stop.removesuffix("s")) > gunicorn_conf.graceful_timeout
    assert lines("KillMode") == ["mixed"]


def test_what_cannot_be_used_is_not_started_again() -> None:
    assert lines("Restart") == ["on-failure"]
    [code] = lines("RestartPreventExitStatus")
    assert f"exit status is {code} if it is invalid" in " ".join((serve.help or "").split())


def test_it_runs_as_nobody_in_particular_and_gains_nothing() -> None:
    assert lines("DynamicUser") == lines("NoNewPrivileges") == ["yes"]
    assert lines("CapabilityBoundingSet") == lines("AmbientCapabilities") == [""]
    assert not lines("User")


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not on this machine")
    program = tmp_path / "gpu-autoscaler"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text().replace("/opt/gpu-autoscaler/bin/gpu-autoscaler", str(program)))
    said = subprocess.run([analyze, "verify", "--man=no", unit], capture_output=True, text=True, timeout=60)
    assert [line for line in said.stderr.splitlines() if UNIT.name in line] == []
