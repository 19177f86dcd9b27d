"""systemd/: the unit starts what the product has, with variables that it reads and folders that it uses."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from receiver.cli.main import main
from receiver.config.environment import DATABASE, SECRET, VARIABLES, read_environment
from receiver.server import gunicorn_conf
from tests.docs.pages import text_of
from tests.image.unit import FOLDER, UNIT, credentials, environment_file, lines, variables

ROOT = Path(__file__).parents[2]
KNOWN = {*VARIABLES, *(f"{name}_FILE" for name in SECRET)}
NOT_OURS = {"PYTHONDONTWRITEBYTECODE"}
PAGE = text_of("docs/vm.md")


def test_it_starts_a_command_that_the_package_installs() -> None:
    [start] = lines("ExecStart")
    program, command = start.split()
    scripts = tomllib.loads(text_of("pyproject.toml"))["project"]["scripts"]
    assert Path(program).name in scripts
    assert command in main.commands
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


def test_after_the_steps_of_the_page_secrets_are_for_root_alone_and_the_rest_for_the_user_of_the_service(
    tmp_path: Path,
) -> None:
    steps = dict(re.findall(r"^## (\d)\. .*?\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))
    [secrets], [configured] = (re.findall(r"^```sh\n(.*?)^```", steps[n], re.MULTILINE | re.DOTALL) for n in "34")
    for name in ("kubectl", "openssl"):
        (tmp_path / name).write_text("#!/bin/sh\necho c2VjcmV0\n")
        (tmp_path / name).chmod(0o755)
    etc = tmp_path / "etc"
    etc.mkdir()
    script = f"umask 022\n{secrets}echo 'mode: observe' > {FOLDER}/config.yaml\n{configured}"
    script = script.replace("/opt/gpu-autoscaler/bin/gpu-autoscaler", "true").replace(FOLDER, str(etc))
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["sh", "-euc", script], cwd=ROOT, env={"PATH": path}, check=True, timeout=30)
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in etc.iterdir()}
    theirs = {"config.yaml", "environment"}
    assert {name for name, mode in modes.items() if mode == "0o644"} == theirs
    assert {name for name, mode in modes.items() if mode == "0o600"} == set(modes) - theirs
    made_here = {Path(source).name for source in credentials().values()} - {"kubeconfig"}  # step 2 makes that
    assert set(modes) - theirs == made_here


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
    assert f"exit status is {code} if it cannot be used" in " ".join((main.commands["serve"].help or "").split())


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
