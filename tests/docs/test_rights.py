"""The rights that the chart gives the autoscaler are those that its adapters use, and no other."""

import re
from collections.abc import Iterator

from receiver.adapters.kubernetes import api, budget_hold, dra, gangs, multikueue, owners, queues
from receiver.adapters.kubernetes.reflector import ResourceKind
from receiver.capabilities.buffers import reader as buffers
from receiver.capabilities.kueue_check import reader as kueue_check
from receiver.capabilities.provisioning_requests import reader as provisioning
from tests.docs.pages import ROOT, text_of
from tests.lint import load_yamls
from tests.manifests.roles import EVERY_RULE, RBAC, ROLES, rights
from tests.manifests.uses import EVERYBODYS

ASKED = re.compile(r'\._wire\.ask\(\s*"(\w+)", [\w."/]+, api\.(\w+)')
FOUND = re.compile(r'\._wire\.find\("\w+", api\.(\w+)')
LISTED = re.compile(r'\._wire\.every\("\w+", api\.(\w+)')
KEPT = re.compile(r"_lists\.every\(\s*\"\w+\",\s*api\.(\w+)")  # listed, and then watched
PATH = re.compile(r"/apis?(?:/([a-z0-9.]+))?/v\d(?:/namespaces/{namespace})?/(\w+)(/{name})?(/\w+)?")
BY_KIND = frozenset({"CUSTOM", "CUSTOM_ONE", "CUSTOM_STATUS"})
VERB = re.compile(r"^  - (get|list|watch|create|update|patch|delete|deletecollection)\b(.*)$", re.MULTILINE)


def _code() -> str:
    folders = (ROOT / "receiver" / folder for folder in ("adapters", "capabilities"))
    files = (path for folder in folders for path in folder.rglob("*.py") if path.stem != "survey")
    return "".join(path.read_text(encoding="utf-8") for path in files)


def _called() -> list[tuple[str, str]]:
    """Return the verb and the path's name of each call."""
    code = _code()
    calls = [*ASKED.findall(code), *(("get", name) for name in FOUND.findall(code))]
    return [*calls, *(("list", name) for name in LISTED.findall(code))]


def _right(path: str, verb: str | None = None) -> tuple[str, str, str]:
    """Return group, resource and verb; a read is a get of one object or a list of all."""
    found = PATH.fullmatch(path)
    assert found is not None, path
    group, resource, one, below = found.groups()
    return group or "", f"{resource}{below or ''}", verb or ("get" if one else "list")


def _used() -> Iterator[tuple[str, str, str]]:
    paths = vars(api)
    for verb, name in _called():
        if name.isupper() and name not in BY_KIND:
            yield _right(paths[name], verb)
    for plural, path in owners.SCALABLE.values():
        yield _right(path)
        yield _right(path if plural == "jobs" else f"{path}/scale", "patch")
    scalables = [path for _, path, _ in buffers.SCALABLES.values()]
    for path in (*(paths[name] for name in KEPT.findall(_code())), api.POD_TEMPLATES, *scalables):
        yield _right(path)
        yield _right(path, "watch")
    for module in (kueue_check, dra, budget_hold, buffers, gangs, multikueue, provisioning, queues):
        for kind in vars(module).values():
            if isinstance(kind, ResourceKind):
                yield kind.group, kind.plural, "list"
                yield kind.group, kind.plural, "watch"
    yield *_right(api.LEASE)[:2], "create"  # an apply to what is not there
    yield budget_hold.CLUSTER_QUEUES.group, budget_hold.CLUSTER_QUEUES.plural, "patch"
    for kind in (buffers.RESOURCE, provisioning.RESOURCE, multikueue.CHECKS, queues.KUEUE_WORKLOADS):
        yield kind.group, f"{kind.plural}/status", "patch"


def test_the_roles_give_what_is_used_and_no_more() -> None:
    assert sorted({*rights(EVERY_RULE), *EVERYBODYS}) == sorted(set(_used()))


def test_the_role_of_observe_mode_only_reads_and_shares_nothing_with_the_other() -> None:
    look, act = (set(rights(ROLES[name])) for name in ("look", "act"))
    assert {verb for _, _, verb in look} == {"list", "watch"}
    assert not look & act


def test_the_only_rights_in_its_own_namespace_are_for_its_lease() -> None:
    assert set(rights(ROLES["own"])) == {("coordination.k8s.io", "leases", verb) for verb in ("create", "patch")}


def test_every_verb_says_which_function_needs_it_and_every_function_is_there() -> None:
    told = VERB.findall(RBAC)
    assert len(told) == sum(len(r["verbs"]) for d in load_yamls(RBAC) for r in d.get("rules", ()))
    for verb, comment in told:
        named = re.findall(r"\b([A-Z]\w+)\.([a-z_]+)\b", comment)
        assert named, f"{verb}{comment}"
        for owner, method in named:
            body = re.search(rf"^class {owner}\b.*?(?=^class |\Z)", _code(), re.MULTILINE | re.DOTALL)
            assert body is not None, owner
            assert f"    def {method}(" in body[0], f"{owner}.{method}"


def test_the_page_and_the_file_know_of_each_other() -> None:
    assert "../k8s/chart/templates/rbac.yaml" in text_of("docs/operations.md")


def test_no_call_to_the_cluster_is_of_a_kind_that_nobody_looks_for_here() -> None:
    code = _code()
    everywhere = len(re.findall(r"_wire\.(?:ask|find|every|listed|watch)\(", code))
    # Of owners, of `Lists`, and of a document that every account may read.
    by_path = (
        'ask("get", "openapi", OPENAPI,',
        "find(plural, path,",
        'ask("patch", resource, path,',
        'ask("patch", kind.status, path,',
        "every(resource, path,",
    )
    assert all(code.count(f"_wire.{call}") == 1 for call in by_path)
    by_reflectors = len(re.findall(r"_wire\.(?:listed|watch)\(asked\.resource, asked\.path", code))
    assert everywhere == len([n for _, n in _called() if n.isupper()]) + len(by_path) + by_reflectors
    assert not re.search(r"\bclient\.\w+Api\(|\.call_api\(", code.replace("self._client.call_api(*request", ""))
