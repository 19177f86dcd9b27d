"""What was known at a decision, with every field filled: what pages and commands print of it."""

EVIDENCE = {
    "pool": {"name": "l40s-before", "size": "an.g1.l40s.kube.x1", "price_usd_per_hour": "1.29"},
    "bounds": {"min_nodes": 0, "max_nodes": 8},
    "because": "ml/train waits for 3 GPUs: 3 more nodes; within_limits: at most 1",
    "what_would_change": [
        {"rule": "within_limits", "text": "a higher limit", "at": None},
        {"rule": "cooled_down", "text": "by itself at 14:30", "at": "2026-03-10T14:30:00+00:00"},
    ],
    "mode": "act",
    "version": "0.0.9",
    "workloads": [
        {
            "workload": "ml/train",
            "owner": "Job/train",
            "team": "vision",
            "gpus": 3,
            "since": "2026-03-10T14:20:00+00:00",
        }
    ],
    "signals": [
        {
            "alertname": "GpuPodsPending",
            "action": "scale_up",
            "fingerprint": "ab12",
            "starts_at": "2026-03-10T14:22:00+00:00",
            "delivery": 117,
        }
    ],
    "sources": {
        "civo": {"up": True, "since": None, "detail": ""},
        "dcgm": {"up": False, "since": "2026-03-10T14:10:00+00:00", "detail": "no series"},
    },
    "silence": {"said": "silenced in Alertmanager by night shift until 2026-03-10 18:00 UTC: maintenance"},
    "overrides": [{"id": "p-1", "kind": "pin", "nodes": 4, "who": "ada", "why": "demo"}],
    "budget": {
        "title": "cluster budget",
        "month": "2026-03",
        "spent_usd": "3120.44",
        "monthly_usd": "5000",
        "reserved_usd": "412.80",
        "stage": "warn",
    },
    "left_out": {"asking": 4},
}
