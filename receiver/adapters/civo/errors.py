"""Civo's error responses as TryLater or WontWork, by their ``code``, or by the HTTP status if they have none.

A 403 from Civo is as often "no GPU is free" as "wrong key", so the status alone says little. Codes are those
of the official client (civogo ``errors.go``) and ``gpu_count_exceeded``, which is seen live and missing there.
"""

from collections.abc import Mapping
from datetime import timedelta

from receiver.core.model.text import harmless
from receiver.ports import TryLater, WontWork

REMEDIES: Mapping[str, str] = {
    "quota_limit_reached": "ask Civo to raise the account's quota, or free what uses it up",
    "gpu_count_exceeded": "not enough GPUs of this kind are free in the region; wait, or use another size or region",
    "out_of_capacity": "the region has no capacity left; wait, or use another region",
    "region_unavailable": "check CIVO_REGION",
    "disabled_service": "the service is disabled in this region or for this account; ask Civo",
    "database_kubernetes_cluster_not_found": "check CIVO_CLUSTER_ID and CIVO_REGION",
    "database_kubernetes_cluster_no_pools": "check CIVO_CLUSTER_ID: the cluster has no pools",
    "database_cluster_pool_not_found": "check civo_pool_id in the configuration",
    "database_size_not_found": "check the pool's size",
}
LATER = frozenset(
    {
        "cannot_scale_already_rescaling_cluster",
        "database_cluster_pool_instance_delete_failed",
        "database_cluster_pool_no_sufficient_instances_available",
        "database_sizes_list",
    }
)
LATER_STATUSES = frozenset({408, 409, 423, 425, 429})
GONE = frozenset(
    {
        "database_cluster_pool_instance_not_found",
        "database_instance_not_found",
        "database_kubernetes_node_not_found",
        "database_cluster_pool_not_found",  # a pool whose last instance went is no longer listed
    }
)
LONGEST_EXPLANATION = 300  # characters of Civo's own text that a message may carry


def refusal(status: int, body: object, doing: str, delay: timedelta | None) -> TryLater | WontWork:
    """Return the error that a response of *status* >= 300 to the request to do *doing* stands for.

    Of *body*, the decoded JSON or None, only ``code``, ``reason`` and ``details`` are quoted, the last two only if
    they are text.
    """
    fields = body if isinstance(body, dict) else {}
    status = 500 if fields.get("status") == 500 else status  # civogo: a 500 inside the body outranks the real one
    code = _code(status, fields)
    said = "; ".join(filter(None, (_text(fields.get("reason")), _text(fields.get("details")))))
    if code.startswith("authentication_"):
        detail = f"Civo refused CIVO_API_KEY ({code}): put a valid key into the secret that sets CIVO_API_KEY"
        return WontWork(detail, code=code)
    said = f"{code} ({said})" if said else code
    later = TryLater(f"Civo could not {doing}: {said}", code=code, delay=delay)
    detail = f"Civo rejected the request to {doing}: {said}"
    if code in LATER or code.endswith("_lock_failed"):
        return later
    remedy = REMEDIES.get(code)
    if code.startswith("account_not_enabled"):
        remedy = "enable the Civo account (payment details) in the dashboard"
    if remedy is not None:
        return WontWork(f"{detail}: {remedy}", code=code)
    if code.endswith("_not_found"):
        return WontWork(detail, code=code)
    if status >= 500 or status in LATER_STATUSES:
        return later
    if status < 400 or code == "http_404":
        detail += ": check CIVO_API_URL"
    return WontWork(detail, code=code)


def _code(status: int, fields: Mapping[str, object]) -> str:
    """Return Civo's code, or one made from the rest of the response."""
    code = fields.get("code")
    if isinstance(code, str) and code.strip():
        return _text(code)[:80]
    if fields.get("result") == "requires_authentication" or status == 401:
        return "authentication_required"
    return f"http_{status}"


def _text(value: object) -> str:
    """Return *value* on one line, cut to `LONGEST_EXPLANATION`, if it is text: other types may hold secrets."""
    if not isinstance(value, str):
        return ""
    return harmless("; ".join(" ".join(line.split()) for line in value.splitlines() if line.strip()))[
        :LONGEST_EXPLANATION
    ]
