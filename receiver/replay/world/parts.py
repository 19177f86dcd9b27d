"""How the parts of a world hang together."""

from datetime import datetime

from receiver.replay.world.activity import Gpus
from receiver.replay.world.agenda import Agenda
from receiver.replay.world.billing import Books
from receiver.replay.world.cloud import Cloud
from receiver.replay.world.cluster import Cluster
from receiver.replay.world.config import WorldConfig
from receiver.replay.world.dice import Dice
from receiver.replay.world.faults import Faults
from receiver.replay.world.jobs import Jobs
from receiver.replay.world.journal import Journal
from receiver.replay.world.nodes import Nodes
from receiver.replay.world.pods import Pods


class Parts:
    """Civo (cloud, books) stands on the nodes, nodes and pods on the cluster's objects, all on one agenda."""

    def __init__(self, config: WorldConfig, start: datetime, faults: Faults) -> None:
        timings = config.timings
        self.agenda = agenda = Agenda(start)
        self.journal = Journal(config.journal_limit)
        self.cluster = cluster = Cluster(agenda, self.journal)
        self.activity = activity = Gpus(agenda)
        self.jobs = Jobs(config.backoff_limit)
        self.books = Books(config.behaviour, config.price)
        self.dice = dice = Dice(config.seed, timings.jitter)
        self.pods = Pods(cluster, agenda, timings, dice, activity, self.jobs, config.packing)
        self.nodes = Nodes(cluster, agenda, timings, dice, faults, activity, self.pods, config.region)
        self.cloud = Cloud(config, agenda, faults, dice, self.books, self.nodes)
        faults.ward = self.nodes
