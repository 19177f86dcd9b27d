"""Admission: ValidatingAdmissionPolicies as the API server would apply them, with a real evaluator of CEL (cel-python).

Kubernetes adds libraries that cel-python does not have (optionals, quantity, join, lists of strings ...), so the policy
keeps to what both know. What is imitated here is small: which requests match, `variables` in their order, and
`messageExpression` before `message`.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flask import g, request

from receiver.replay.world.objects import Denied

if TYPE_CHECKING:
    import celpy

JSON = Mapping[str, Any]
USER = "system:serviceaccount:gpu-autoscaler:gpu-autoscaler"  # who asks


class Policy:
    """A policy, compiled when a body is first judged: that and the evaluator's import take longer than most tests."""

    def __init__(self, body: JSON) -> None:
        self._spec = body["spec"]
        self._constraints = self._spec["matchConstraints"]

    @cached_property
    def _conditions(self) -> list["celpy.Runner"]:
        return [_compiled(c["expression"]) for c in self._spec.get("matchConditions", ())]

    @cached_property
    def _variables(self) -> list[tuple[str, "celpy.Runner"]]:
        return [(v["name"], _compiled(v["expression"])) for v in self._spec.get("variables", ())]

    @cached_property
    def _validations(self) -> list[tuple["celpy.Runner", "celpy.Runner | str"]]:
        return [
            (
                _compiled(v["expression"]),
                _compiled(v["messageExpression"]) if "messageExpression" in v else v["message"],
            )
            for v in self._spec["validations"]
        ]

    def matches(self, resource: str, operation: str, namespace: str, *, group: str = "", version: str = "v1") -> bool:
        """True when a request to *operation* a *resource* in *namespace* is looked at."""
        labels = {"kubernetes.io/metadata.name": namespace}
        for want in self._constraints.get("namespaceSelector", {}).get("matchExpressions", ()):
            assert want["operator"] == "NotIn", want
            if labels.get(want["key"]) in want["values"]:
                return False
        return any(
            group in rule["apiGroups"]
            and {version, "*"} & {*rule["apiVersions"]}
            and operation in rule["operations"]
            and resource in rule["resources"]
            for rule in self._constraints["resourceRules"]
        )

    def refusals(
        self, resource: str, body: JSON, before: JSON | None = None, *, user: str = "", namespace: str = ""
    ) -> list[str]:
        """Return what a *user* reads who creates *body*, or makes it of what was *before*; nothing when it is taken."""
        import celpy

        variables = celpy.celtypes.MapType()
        operation = "CREATE" if before is None else "UPDATE"
        given: dict[str, Any] = {
            "object": _value(body),
            "oldObject": _value(before),
            "request": _value(
                {
                    "resource": {"resource": resource.partition("/")[0]},
                    "operation": operation,
                    "userInfo": {"username": user},
                    **({"namespace": namespace} if namespace else {}),
                }
            ),
            "variables": variables,
        }
        if not all(bool(condition.evaluate(given)) for condition in self._conditions):
            return []
        for name, program in self._variables:
            variables[celpy.celtypes.StringType(name)] = program.evaluate(given)
        told = []
        for holds, message in self._validations:
            if not bool(holds.evaluate(given)):
                told.append(message if isinstance(message, str) else str(message.evaluate(given)))
        return told


def admit(before: JSON | None, after: JSON) -> None:
    """Raise Denied (403) when a policy of the simulator refuses the request under way, which makes *after* of what was
    *before* (None: it creates it)."""
    policies = g.live.policies
    if not policies:
        return
    where = request.view_args or {}
    group, version, resource = _asked()
    operation, namespace = "CREATE" if before is None else "UPDATE", where.get("namespace", "")
    for name, policy in policies.items():
        if policy.matches(resource, operation, namespace, group=group, version=version):
            refused = policy.refusals(resource, after, before, user=g.live.user, namespace=namespace)
            if refused:
                said = f"ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {refused[0]}"
                raise Denied("Forbidden", 403, f'{resource} "{where.get("name", "")}" is forbidden: {said}')


def _asked() -> tuple[str, str, str]:
    """Return group, version and resource of the request's path, such as ``apps``, ``v1``, ``deployments/scale``."""
    parts = request.path.strip("/").split("/")
    group, version, *rest = ("", *parts[1:]) if parts[0] == "api" else parts[1:]
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    return group, version, "/".join([rest[0], *rest[2:]])


def _value(body: JSON | None) -> Any:
    from celpy.adapter import json_to_cel

    return json_to_cel(json.loads(json.dumps(body)))


def _compiled(expression: str) -> "celpy.Runner":
    import celpy

    environment = celpy.Environment()
    return environment.program(environment.compile(expression))
