"""`python -m campaigns.frozen DIR` writes what people and programs read; `--compare A B` says which files differ."""

import difflib
import json
import logging
import re
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
from click.testing import CliRunner
from flask.testing import FlaskClient

from campaigns.frozen.worlds import worlds
from receiver.cli.main import COMMANDS, main
from receiver.core.notices.grouping import Seal
from tests.cli.asked import serving
from tests.quiet import silence
from tests.web.builders import OPERATOR, Bench

NOTHING = "no-such-thing"  # asked beside what there is, for the answer's refusal
SOME_MONTHS = ("2026-10", "2026-11", "2030-01")
SECRETS = re.compile(r'(name="form_token" value=")[^"]*|(127\.0\.0\.1:)\d+')


def written(bench: Bench) -> Iterator[tuple[str, str]]:
    """Each answer of *bench* by the name of its file."""
    client = bench.client()
    for path in sorted(set(_paths(client, bench))):
        yield _name(path), _answer(client, "GET", path)
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    with serving(bench.parts()) as url:
        for arguments in _commands(client):
            done = CliRunner(env={"GPU_AUTOSCALER_URL": url}).invoke(main, arguments, obj=bench.clock)
            said = _sorted(json.loads(done.stdout)) if "--json" in arguments and done.stdout else done.stdout
            text = f"exit {done.exit_code}\n{said}--- stderr\n{done.stderr}"
            yield f"cli/{'_'.join(arguments).replace('/', '+')}.txt", text
    for number, (method, path, body) in enumerate(_writes(client)):
        yield f"write/{number:02}_{method}_{_name(path)}", _answer(client, method, path, json=body, headers=headers)
    yield "write/status_after.json", _answer(client, "GET", "/api/v1/status")


def _answer(client: FlaskClient, method: str, path: str, **given: Any) -> str:
    """Status, the headers that matter and the body, JSON indented with sorted keys."""
    response = client.open(path, method=method, **given)
    head = [f"{response.status_code} {response.content_type}"]
    head += [f"{k}: {v}" for k, v in sorted(response.headers.items()) if k.startswith("Gpu-")]
    body = response.text
    if response.is_json:
        body = _sorted(response.get_json())
    return "\n".join([*head, "", body, ""])


def _sorted(document: Any) -> str:
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)


def _got(client: FlaskClient, path: str) -> Any:
    """What the API answers; nothing where a capability that adds the request was deleted."""
    answer = client.get(f"/api/v1/{path}")
    return answer.get_json() if answer.status_code == 200 else []


def _paths(client: FlaskClient, bench: Bench) -> Iterator[str]:
    """Every address that is read: each route without a part, and each route with one for everything that there is."""
    yield from (
        r.rule for r in client.application.url_map.iter_rules() if "GET" in (r.methods or ()) and "<" not in r.rule
    )
    yield from (f"/api/v1/{what}?limit=500" for what in ("decisions", "actions", "waiting", "overrides", "questions"))
    yield from ("/api/v1/overrides?ended=true", "/api/v1/waiting?limit=0", "/api/v1/alerts?alertname=Maintenance")
    for pool in [*[p.name for p in bench.policy.pools], NOTHING]:
        yield from (f"/api/v1/pools/{pool}", f"/pools/{pool}", f"/pools/{pool}/overrides")
        yield from (f"/api/v1/{what}?pool={pool}&limit=3" for what in ("decisions", "actions", "waiting"))
    for number in [*_decisions(client), NOTHING, "999999"]:
        yield from (f"/api/v1/decisions/{number}", f"/api/v1/decisions/{number}/grounds", f"/decisions/{number}")
    for pod in _got(client, "waiting?limit=500"):
        yield f"/api/v1/waiting/{pod['namespace']}/{pod['name']}"
    yield from ("/api/v1/waiting/ml/early-grows-0", "/api/v1/waiting/ml/no-such-thing")
    for question in [*[q["id"] for q in _got(client, "questions?limit=500")], NOTHING]:
        yield from (
            f"/api/v1/questions/{question}",
            f"/answer/{Seal(OPERATOR, bench.store.sealing_key()).sign(question)}",
        )
    for override in [*[o["id"] for o in _got(client, "overrides?ended=true")], NOTHING]:
        yield f"/api/v1/overrides/{override}"
    yield from (f"/api/v1/costs?by={by}" for by in ("team", "pool", "workload", "namespace", "project", "unheard-of"))
    for month in SOME_MONTHS:
        yield from (f"/costs?month={month}", f"/api/v1/costs?month={month}", f"/api/v1/report?month={month}")
        for team in ("vision", "", "no-such-thing"):
            yield from (f"/costs?month={month}&team={team}", f"/api/v1/report?month={month}&team={team}")


def _decisions(client: FlaskClient) -> list[str]:
    """The latest decision of each kind of each pool."""
    found = {(d["pool"], d["verdict"], _kind(d)): d["id"] for d in reversed(_got(client, "decisions?limit=500"))}
    return [str(number) for number in found.values()]


def _kind(decision: dict[str, Any]) -> str:
    return "+".join(r["rule"] for r in decision["reasons"] if r["verdict"] != "allows")


def _commands(client: FlaskClient) -> Iterator[list[str]]:
    """Every command that reads, as people and as programs call it."""
    plain = [
        ["status"],
        ["override", "list"],
        ["override", "list", "--ended"],
        ["approvals", "list", "--all"],
        ["budget", "show"],
    ]
    plain += [["explain", pool["name"]] for pool in _got(client, "pools")] + [["explain", NOTHING]]
    plain += [["explain", "decision", number] for number in [*_decisions(client), "999999"]]
    pods = [f"{pod['namespace']}/{pod['name']}" for pod in _got(client, "waiting?limit=500")]
    plain += [["explain", "pod", pod] for pod in [*pods, "ml/early-grows-0"]]
    for command in plain:
        yield from (command, [*command, "--json"])
    for month in SOME_MONTHS[:2]:
        for form in ("text", "csv", "json", "html", "focus"):
            yield from (
                ["report", "--month", month, "--format", form],
                ["report", "--team", "vision", "--format", form],
            )
    yield from ([word, "--help"] for word in COMMANDS)


def _writes(client: FlaskClient) -> Iterator[tuple[str, str, Any]]:
    """Requests that change something, and some that are refused."""
    said = {"who": "ada", "why": "a demo"}
    pool = next((p["name"] for p in _got(client, "pools")), "l40s")
    yield "POST", "/api/v1/overrides", {"kind": "pin", "pool": pool, "nodes": 1, "for": "1h", **said}
    yield "POST", "/api/v1/overrides", {"kind": "pause", "for": "1h", **said}
    yield "POST", "/api/v1/overrides", {"kind": "stop", "for": "1h", **said}
    yield "POST", "/api/v1/overrides", {"kind": "pin", "pool": "unheard-of", "nodes": "x", "for": "soon"}
    for override in [*[o["id"] for o in _got(client, "overrides")], NOTHING]:
        yield "DELETE", f"/api/v1/overrides/{override}?who=ada", None
    for scope in ({"scope": "cluster"}, {"scope": "team", "name": "vision"}, {"scope": "pool", "name": pool}):
        yield "POST", "/api/v1/budget", {**scope, "monthly_usd": "6000", **said}
    yield "DELETE", "/api/v1/budget?scope=cluster&who=ada&why=over", None
    yield "DELETE", "/api/v1/budget?scope=cluster", None
    for question in _got(client, "questions"):
        yield "POST", f"/api/v1/questions/{question['id']}", {"answer": "perhaps", "who": "ada"}
        yield "POST", f"/api/v1/questions/{question['id']}", {"answer": "approve", "who": "ada"}


def _name(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9._=,-]+", "_", path.strip("/")) or "overview"


def write(folder: Path) -> None:
    """Write every answer of every world below *folder*."""
    silence()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    numbers = count(1)
    with worlds() as found, patch("secrets.token_hex", lambda size: f"{next(numbers):0{2 * size}}"):
        for world, bench in found.items():
            for name, text in written(bench):
                file = folder / world / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(SECRETS.sub(lambda m: (m[1] or m[2]) + "*", text))


def compare(before: Path, after: Path, most: int = 12) -> bool:
    """Print which files differ, with the first lines of each difference; True without any."""
    names = sorted({f.relative_to(d).as_posix() for d in (before, after) for f in d.rglob("*") if f.is_file()})
    differ = 0
    for name in names:
        old, new = ((d / name).read_text().splitlines() if (d / name).exists() else [] for d in (before, after))
        if old != new:
            differ += 1
            lines = [
                x for x in difflib.unified_diff(old, new, n=0, lineterm="") if not x.startswith(("---", "+++", "@@"))
            ]
            click.echo("\n    ".join([f"{name}: {len(lines)} lines", *lines[:most]]))
    click.echo(f"{differ} of {len(names)} files differ")
    return not differ


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--compare", before, after]:
            sys.exit(not compare(Path(before), Path(after)))
        case [folder] if not folder.startswith("-"):
            write(Path(folder))
        case _:
            sys.exit(__doc__)
