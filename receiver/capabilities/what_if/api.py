"""POST /api/v1/what-if and GET /api/v1/nodes/{name}/what-if."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from flask import Blueprint, Response, g, jsonify, request

from receiver.capabilities.what_if.documents import NodeWhatIfDocument, WhatIfDocument
from receiver.capabilities.what_if.evaluation import compare, require_few, without_node
from receiver.config.values import ConfigError
from receiver.ports import StoredAction
from receiver.web.api.request_parts import read_body
from receiver.web.errors import Problem
from receiver.web.operation import OF_A_STEP, TEXT, Request, Schema, one_of
from receiver.web.parts import LastStep, WebParts

LARGEST_CONFIGURATION = 64 * 1024  # bytes
RECENT_ACTIONS = 50  # of a pool: a node's last removal is one of them
ONE = threading.Lock()  # for the API and the pages: a question takes up to a second of the processor that steps need
TOO_LARGE = f"a configuration has at most {LARGEST_CONFIGURATION // 1024} KiB"

_CONFIGURATION: Schema = {**TEXT, "description": "a configuration file"}
_AS = ("as", one_of(("file", "changes"), "file by default; changes: only keys that differ, like pools.l40s.max_nodes"))
REQUESTS = (
    Request("what-if", "whatIf", "What another configuration would decide now", WhatIfDocument, (400, 403, 413),
            method="post", body=_CONFIGURATION, query=(_AS,), headers=OF_A_STEP),
    Request("nodes/{name}/what-if", "nodeWhatIf", "What would happen if a node went", NodeWhatIfDocument, (404,),
            headers=OF_A_STEP),
)  # fmt: skip


class WhatIf:
    """Answers what-if questions from the last step of this process, one at a time in the whole process."""

    def __init__(self, parts: WebParts) -> None:
        self._parts = parts

    @contextmanager
    def _last(self) -> Iterator[LastStep]:
        """Yield the last step. Raises Problem 503 where this process has none, or answers another question."""
        last = self._parts.last_step()
        if last is None:
            leader = self._parts.heartbeat().leader
            leads = leader is not None and not leader.mine
            problem = "this replica takes no steps" if leads else "no step has finished yet"
            ask = f"ask the replica that leads, {leader.name}" if leader is not None and leads else "ask again soon"
            raise Problem(503, problem, ask)
        if not ONE.acquire(blocking=False):
            raise Problem(503, "another what-if question is being answered", "ask again in a moment", retry_after=1)
        try:
            g.step_at = last.facts.at
            yield last
        finally:
            ONE.release()

    def of_text(self, text: str, *, changes: bool) -> WhatIfDocument:
        """Compare with the configuration in *text*, or with the one in force and the *changes* in it. Raises
        ConfigError, and Problem 413 or 503."""
        if len(text) > LARGEST_CONFIGURATION:
            problem = f"the configuration is larger than {LARGEST_CONFIGURATION} bytes"
            raise Problem(413, problem, TOO_LARGE, limit_bytes=LARGEST_CONFIGURATION)
        with self._last() as last:
            settings = self._parts.other_settings(text, changes)
            require_few(settings.policy, last.settings.policy)
            return compare(last, settings)

    def of_node(self, name: str) -> NodeWhatIfDocument:
        """Raises Problem 404 or 503."""
        with self._last() as last:
            return without_node(last, name, self._actions_of)

    def _actions_of(self, pool: str) -> Sequence[StoredAction]:
        return self._parts.store.actions(pool=pool, limit=RECENT_ACTIONS)


def problem_of(error: ConfigError) -> Problem:
    """Return the 400 that lists the mistakes of a configuration."""
    mistakes: Sequence[Mapping[str, Any]] = [
        {"field": mistake.path, "problem": mistake.problem, "remedy": mistake.remedy} for mistake in error.mistakes
    ]
    many = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
    first = error.mistakes[0]
    remedy = first.remedy or "check the file with gpu-autoscaler check-config"
    return Problem(400, f"invalid configuration: {many}", remedy, field=first.path, mistakes=mistakes)


def add_routes(routes: Blueprint, parts: WebParts) -> None:
    """Add both routes to *routes*."""
    evaluator = WhatIf(parts)

    @routes.post("/what-if")
    def what_if() -> Response:
        body = read_body(request, LARGEST_CONFIGURATION, TOO_LARGE)
        kind = request.args.get("as", "file")
        if kind not in ("file", "changes"):
            raise Problem(400, "as is neither file nor changes", "write changes, or leave it out", field="as")
        try:
            return jsonify(evaluator.of_text(body.decode(), changes=kind == "changes"))
        except UnicodeDecodeError:
            raise Problem(400, "the body is not UTF-8", "save the file as UTF-8") from None
        except ConfigError as error:
            raise problem_of(error) from None

    @routes.get("/nodes/<name>/what-if")
    def node_what_if(name: str) -> Response:
        return jsonify(evaluator.of_node(name))
