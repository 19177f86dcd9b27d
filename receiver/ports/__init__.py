"""What the reconciler needs from the outside, in the domain's words, and the two ways it can fail."""

from receiver.ports.budgets import BudgetStore
from receiver.ports.clock import Clock
from receiver.ports.cloud import Accounts, Charges, Cloud, CloudPool, Instance, Sizes
from receiver.ports.cluster import (
    CORDON_ANNOTATION,
    GANG_ANNOTATION,
    GANG_SIZE_ANNOTATION,
    IDLE_SHUTDOWN_ANNOTATION,
    KEEP_UNTIL_ANNOTATION,
    PROTECT_ANNOTATION,
    SAFE_TO_EVICT_ANNOTATION,
    STOP_ANNOTATION,
    Cluster,
    ClusterFacts,
    ClusterNode,
)
from receiver.ports.decisions import DecisionStore, Grounds, GroundsKept, StoredAction, StoredDecision
from receiver.ports.failures import TryLater, WontWork, WriterLostError
from receiver.ports.history import Arrival, HistoryStore, Told
from receiver.ports.holding import QUOTA_LABEL, QUOTA_NAME, STOP_POLICY_ANNOTATION, Holding, KeptOut
from receiver.ports.ledger import Delivery, Snapshot, Store, StoredNotice, Telling
from receiver.ports.monitoring import AlarmFacts, Alarms, Telemetry, TelemetryFacts
from receiver.ports.overrides import OverrideStore, StoredOverride
from receiver.ports.questions import QuestionStore
from receiver.ports.receipts import Did, Receipt
from receiver.ports.reports import ReportStore
from receiver.ports.usage import UsageStore
from receiver.ports.watching import DemandWatch

__all__ = [
    "CORDON_ANNOTATION",
    "GANG_ANNOTATION",
    "GANG_SIZE_ANNOTATION",
    "IDLE_SHUTDOWN_ANNOTATION",
    "KEEP_UNTIL_ANNOTATION",
    "PROTECT_ANNOTATION",
    "QUOTA_LABEL",
    "QUOTA_NAME",
    "SAFE_TO_EVICT_ANNOTATION",
    "STOP_ANNOTATION",
    "STOP_POLICY_ANNOTATION",
    "Accounts",
    "AlarmFacts",
    "Alarms",
    "Arrival",
    "BudgetStore",
    "Charges",
    "Clock",
    "Cloud",
    "CloudPool",
    "Cluster",
    "ClusterFacts",
    "ClusterNode",
    "DecisionStore",
    "Delivery",
    "DemandWatch",
    "Did",
    "Grounds",
    "GroundsKept",
    "HistoryStore",
    "Holding",
    "Instance",
    "KeptOut",
    "OverrideStore",
    "QuestionStore",
    "Receipt",
    "ReportStore",
    "Sizes",
    "Snapshot",
    "Store",
    "StoredAction",
    "StoredDecision",
    "StoredNotice",
    "StoredOverride",
    "Telemetry",
    "TelemetryFacts",
    "Telling",
    "Told",
    "TryLater",
    "UsageStore",
    "WontWork",
    "WriterLostError",
]
