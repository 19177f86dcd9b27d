"""Nothing in rules/ may mean something else to Prometheus 3 than to Prometheus 2.42.

The promtool tests run with each version that is there (versions.py), which may be 2.42 alone. So each check here is a
scan for what the changelog and the migration guide of Prometheus 3 name as changed:

- Ranges are open on the left: `[10m]` over samples of 30s holds 20 of them where 2.x may hold 21. Samples are counted
  in steps of a subquery only, against a bound at least 5 % below what fits, or compared with a count over the same
  range. A range holds several samples of 30s, or at least one where only the last is asked for.
- `.` in a regular expression matches a newline. It is used on labels only that cannot have one: names of Kubernetes
  and of Civo, NVIDIA's product names, resources, metric names.
- Names may be any UTF-8. All of ours and all that we read fit the old letters, and none is quoted.
- `le` and `quantile` of scraped series are written as floats ("1" becomes "1.0"). Neither is compared with a literal;
  histogram_quantile reads it as a number either way.
- Functions: `holt_winters` is gone. What is used is listed here: each is in the function pages of 2.42 and of 3.x with
  the same text.
- `scrape_classic_histograms` got another name, and Alertmanager's API v1 is gone. The example configuration sets
  neither, and our histograms are classic ones anyway.
"""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import yaml

from tests.lint import none_of
from tests.rules.files import EVERY_RULE, RULES

Scan = Callable[[str], Iterator[str]]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SAME_IN_BOTH = _words(
    """abs absent avg_over_time ceil changes clamp clamp_max clamp_min count_over_time day_of_month days_in_month delta
    deriv floor histogram_quantile hour increase label_join label_replace last_over_time max_over_time min_over_time
    minute predict_linear rate resets round sum_over_time time timestamp vector"""
)
AGGREGATIONS = _words("avg count count_values group max min sum topk")
WORDS = _words("and by group_left group_right ignoring offset on or unless without")
WITHOUT_NEWLINES = _words(
    """__name__ Hostname alertmanager cluster_queue exported_namespace exported_pod hostname instance integration job
    modelName names namespace node owner_kind owner_name pod queue_name resource rule_group
    label_kubernetes_civo_com_civo_node_pool nodeselector_kubernetes_civo_com_civo_node_pool"""
)
STRING = r'"(?:[^"\\]|\\.)*"'
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def _length(text: str) -> timedelta:
    return timedelta(seconds=sum(int(n) * UNITS[unit] for n, unit in re.findall(r"(\d+)([smhdw])", text)))


def _without_strings(expr: str) -> str:
    return re.sub(STRING, '""', expr)


def functions(expr: str) -> Iterator[str]:
    """Yield calls of what is not known to be the same."""
    for name in re.findall(rf"({NAME})\s*\(", _without_strings(expr)):
        if name not in SAME_IN_BOTH | AGGREGATIONS | WORDS:
            yield name


def ranges(expr: str) -> Iterator[str]:
    """Yield ranges that may hold too few samples when their left edge is open."""
    for call, span, step in re.findall(r"(last_over_time\([^()]*)?\[(\w+)(?::(\w*))?\]", _without_strings(expr)):
        if _length(span) < (1.5 if call else 4) * (_length(step) or timedelta(seconds=30)):
            yield f"[{span}]"


def counts(expr: str) -> Iterator[str]:
    """Yield counts of samples whose outcome depends on the edge of the range."""
    bare = " ".join(_without_strings(expr).split())
    spans = re.findall(r"count_over_time\([^\]]*\[([\w:]+)\]", bare)
    if len(spans) > 1 and len(set(spans)) == 1 and re.search(r"[<>]=? on \([^)]*\)[^\d]*count_over_time\(", bare):
        return
    for call in re.finditer(r"count_over_time\(", bare):
        bound = re.match(r"[^\]]*\[(\w+):(\w+)\]\s*\)\s*>=\s*(\d+)", bare[call.end() :])
        if bound is None or int(bound[3]) > 0.95 * (_length(bound[1]) / _length(bound[2])):
            yield bare[call.start() : call.start() + 60]


def dots(expr: str) -> Iterator[str]:
    """Yield labels that could have a newline where `.` is to match."""
    matched = re.findall(rf'({NAME})\s*[=!]~\s*"((?:[^"\\]|\\.)*)"', expr)
    replaced = re.findall(rf"({STRING})\s*,\s*({STRING})\s*\)", expr)  # the last two of label_replace
    for label, pattern in [*matched, *((a.strip('"'), b.strip('"')) for a, b in replaced)]:
        if "." in re.sub(r"\[\.\]", "", pattern) and label not in WITHOUT_NEWLINES:
            yield label


def letters(expr: str) -> Iterator[str]:
    """Yield names that only UTF-8 allows."""
    for selector in re.findall(rf"\{{((?:{STRING}|[^\"}}])*)\}}", expr):
        yield from re.findall(rf"(?:^|,)\s*({STRING})", selector)
    yield from re.findall(rf"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*?({STRING})", expr)
    yield from re.findall(r"[^\x00-\x7f]", expr)


def buckets(expr: str) -> Iterator[str]:
    """Yield literal bounds of buckets and quantiles; +Inf is written alike by every version."""
    yield from re.findall(r'\b(?:le|quantile)\s*[=!]~?\s*"(?!\+Inf")', expr)


SCANS: tuple[Scan, ...] = (functions, ranges, counts, dots, letters, buckets)


# What each scan has to find.
FOUND: tuple[tuple[Scan, str], ...] = (
    (functions, "holt_winters(x[1h], 0.5, 0.5) > 1"),
    (ranges, "rate(x_total[1m])"),
    (ranges, "max_over_time(x[2m:1m])"),
    (ranges, "last_over_time(x[30s])"),
    (counts, "count_over_time(x[10m]) >= 18"),
    (counts, "count_over_time(x[10m:30s]) >= 20"),
    (counts, "count_over_time(x[10m:30s]) == 20"),
    (counts, "count_over_time(x[10m:30s]) >= on () count_over_time(y[20m:30s])"),
    (dots, 'x{err_msg=~".+"}'),
    (dots, 'label_replace(x, "to", "$1", "err_msg", "(.+)")'),
    (letters, '{"a.name", job="x"}'),
    (letters, 'x{"label.name"="1"}'),
    (letters, 'sum by ("label.name") (x)'),
    (letters, "größe > 1"),
    (buckets, 'x_bucket{le="1"}'),
    (buckets, 'x_bucket{job="a", le=~"1|2"}'),
)


def test_no_rule_depends_on_what_changed() -> None:
    none_of(
        f"{rule.name}, {scan.__name__}: {found}"
        for rule in EVERY_RULE
        for scan in SCANS
        for found in scan(rule.body["expr"])
    )


def test_each_scan_finds_what_it_is_for() -> None:
    assert {scan for scan, _ in FOUND} == set(SCANS)
    none_of(f"{scan.__name__}: {expr}" for scan, expr in FOUND if not list(scan(expr)))


def test_the_example_configuration_sets_nothing_that_was_renamed_or_dropped() -> None:
    config = (RULES / "prometheus.yml").read_text()

    assert "scrape_classic_histograms" not in config
    assert "api_version" not in yaml.safe_load(config)["alerting"]["alertmanagers"][0]
