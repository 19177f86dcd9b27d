"""A ValidatingAdmissionPolicy as the API server would apply it, with a real evaluator of CEL (cel-python).

Kubernetes adds libraries that cel-python does not have (optionals, quantity, join, lists of strings ...), so the policy
keeps to what both know. What is imitated here is small: which requests match, `variables` in their order, and
`messageExpression` before `message`.
"""

import json
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import celpy

JSON = Mapping[str, Any]


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
        for want in self._constraints["namespaceSelector"]["matchExpressions"]:
            assert want["operator"] == "NotIn", want
            if labels.get(want["key"]) in want["values"]:
                return False
        return any(
            group in rule["apiGroups"]
            and version in rule["apiVersions"]
            and operation in rule["operations"]
            and resource in rule["resources"]
            for rule in self._constraints["resourceRules"]
        )

    def refusals(self, resource: str, body: JSON, before: JSON | None = None) -> list[str]:
        """Return what a person reads who creates *body*, or makes it of what was *before*; nothing when it is taken."""
        import celpy

        variables = celpy.celtypes.MapType()
        operation = "CREATE" if before is None else "UPDATE"
        given: dict[str, Any] = {
            "object": _value(body),
            "oldObject": _value(before),
            "request": _value({"resource": {"resource": resource}, "operation": operation}),
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


def _value(body: JSON | None) -> Any:
    from celpy.adapter import json_to_cel

    return json_to_cel(json.loads(json.dumps(body)))


def _compiled(expression: str) -> "celpy.Runner":
    import celpy

    environment = celpy.Environment()
    return environment.program(environment.compile(expression))
