"""Single values, as the file and annotations have them, and how a file of YAML is read into them."""

import gc
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import Field

from receiver.config import Configuration, values
from receiver.config.values import (
    AND_MORE,
    MOST_MISTAKES,
    ConfigError,
    LabelKey,
    LongerThanZero,
    Mistake,
    Section,
    Text,
    Whole,
    Wrong,
    at_most,
    did_you_mean,
    parse,
    spell,
    spell_duration,
)
from receiver.config.yaml_text import DEEPEST, LONGEST_KEY, MOST_CHARACTERS, MOST_VALUES, TOO_DEEP, TOO_MANY, load, read
from receiver.core.model.overrides import EVERY_POOL
from receiver.core.model.signals import UNASSIGNED

SECOND = timedelta(seconds=1)
TWO = Annotated[Any, at_most(2)]


class Part(Section):
    """A section with a number, which must be given, and a name."""

    size: Whole = Field(examples=["size: 3"])
    name: Text = "x"


class Whole3(Section):
    """A file: sections at every kind of place. Its first two numbers contradict each other if they are equal."""

    part: Part | None = None
    parts: tuple[Part, ...] = ()
    by_name: dict[str, Part] = Field(default_factory=dict)
    labels: dict[LabelKey, Text] = Field(default_factory=dict)
    least: Whole = 0
    most: Whole = 1

    def contradictions(self) -> Iterator[Wrong]:
        """Yield one for each number from *most* to *least*."""
        for number in range(self.most, self.least + 1):
            yield Wrong(f"{number} is too much", "write less", at=("least",))


def refusal(kind: Any, value: Any) -> str:
    """Why *value* is refused, with the remedy."""
    with pytest.raises(Wrong) as refused:
        parse(kind, value)
    return f"{refused.value}; {refused.value.remedy}"


def mistakes(content: str) -> list[str]:
    """The mistakes in the YAML *content*, which is no Whole3."""
    loaded, found = load(Whole3, content)
    assert loaded is None
    return [str(mistake) for mistake in found]


# --- single values


@pytest.mark.parametrize(
    ("kind", "value", "read_as"),
    [
        (values.Duration, "1h30m", 90 * 60 * SECOND),
        (values.Duration, "0", timedelta(0)),
        (values.Duration, " 5ms ", timedelta(milliseconds=5)),
        (values.Duration, "366d", timedelta(days=366)),
        (values.LongerThanZero, "1ms", timedelta(milliseconds=1)),
        (values.Period, "1s", SECOND),
        (values.Tick, "5m", 300 * SECOND),
        (values.Money, "0", Decimal(0)),
        (values.Ratio, "0.70", Decimal("0.70")),
        (values.Ratio, "1", Decimal(1)),
        (values.Day, "2026-08-22", date(2026, 8, 22)),
        (values.Zone, "Europe/London", "Europe/London"),
        (values.Address, "http://prometheus:9090/", "http://prometheus:9090"),
        (values.PublicAddress, "https://gpu.example.com/autoscaler/", "https://gpu.example.com/autoscaler"),
        (values.PoolName, "l40s", "l40s"),
        (values.LabelValue, "", ""),
        (values.LabelValue, "a", "a"),
        (values.Month, "2026-11", "2026-11"),
        (values.Text, " a ", "a"),
        (values.Whole, "8", 8),
        (TWO, ["a", "b"], ["a", "b"]),
        (TWO, "abc", "abc"),
    ],
)
def test_a_value_is_read(kind: Any, value: Any, read_as: Any) -> None:
    assert parse(kind, value) == read_as


def test_an_amount_is_shown_without_an_exponent() -> None:
    assert str(parse(values.Money, "1.25e6")) == "1250000"


NO_DURATION = "is not a duration; write whole numbers with units, largest first, such as 30s, 5m, 1h30m or 1d"
NO_URL = "is not an http or https URL; write it whole, such as http://prometheus.monitoring:9090"
OFFSET = "write a place such as Europe/London, or Etc/GMT-1 for UTC+1 without summer time"
IANA = "write a name of the IANA database such as UTC or Europe/London"


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        (values.Duration, "5", '"5" has no unit; write 5s for seconds or 5m for minutes'),
        (values.Duration, "soon", f'"soon" {NO_DURATION}'),
        (values.Duration, "-", f'"-" {NO_DURATION}'),
        (values.Duration, "-5m", '"-5m" is too short; write at least 0s'),
        (values.Duration, "367d", '"367d" is longer than a year; write a shorter duration'),
        (values.Duration, "-367d", '"-367d" is longer than a year; write a shorter duration'),
        (values.LongerThanZero, "0s", '"0s" is too short; write at least 1s'),
        (values.Period, "999ms", '"999ms" is too short; write at least 1s'),
        (values.Tick, "5m1s", '"5m1s" is too long; write at most 5m'),
        (values.Money, "-1", '"-1" is too low; write 0 or more'),
        (values.Money, "1000000000000", '"1000000000000" is too high; write less than 1000000000000'),
        (values.Money, "a few", '"a few" is not a number; write digits and a point, such as 0.70 or 1250.50'),
        (values.Ratio, "70%", '"70%" is a percentage and this is a ratio; write 0.70'),
        (values.Ratio, "1%", '"1%" is a percentage and this is a ratio; write 0.01'),
        (values.Ratio, "100%", '"100%" is a percentage and this is a ratio; write 1.00'),
        (values.Ratio, "2", '"2" is a percentage and this is a ratio; write 0.02'),
        (values.Ratio, "100", '"100" is a percentage and this is a ratio; write 1.00'),
        (values.Ratio, "101", '"101" is out of range; write a ratio above 0 and up to 1, such as 0.70'),
        (values.Ratio, "101%", '"101%" is out of range; write a ratio above 0 and up to 1, such as 0.70'),
        (values.Ratio, "0", '"0" is out of range; write a ratio above 0 and up to 1, such as 0.70'),
        (values.Ratio, "0%", '"0%" is out of range; write a ratio above 0 and up to 1, such as 0.70'),
        (values.Ratio, "%", '"%" is not a number; write digits and a point, such as 0.70 or 1250.50'),
        (values.Day, "soon", '"soon" is not a day; write it as 2026-08-22'),
        (values.Zone, "Europe/Lodnon", '"Europe/Lodnon" is not a time zone; did you mean Europe/London?'),
        (values.Zone, "Mars", f'"Mars" is not a time zone; {IANA}'),
        (values.Zone, "GTM", f'"GTM" is not a time zone; {IANA}'),
        (values.Zone, "GMT+1", f'"GMT+1" is not a time zone; {OFFSET}'),
        (values.Address, "ftp://prometheus", NO_URL),
        (values.Address, "http://", NO_URL),
        (values.Address, "http://prometheus:99999", NO_URL),
        (values.Address, "http://prometheus/ a", NO_URL),
        (
            values.PublicAddress,
            "https://ada@gpu.example.com",
            (
                "contains a user or password, and messages show this URL to everyone; "
                "write it whole, such as https://gpu.example.com"
            ),
        ),
        (
            values.PublicAddress,
            "https://gpu.example.com/?a",
            (
                "has a query or a fragment, and paths are added to this URL; "
                "write it whole, such as https://gpu.example.com"
            ),
        ),
        (
            values.PublicAddress,
            "https://gpu.example.com/#a",
            (
                "has a query or a fragment, and paths are added to this URL; "
                "write it whole, such as https://gpu.example.com"
            ),
        ),
        (
            values.PoolName,
            UNASSIGNED,
            f'"{UNASSIGNED}" is reserved: alerts use it for demand without a pool; choose another name',
        ),
        (
            values.PoolName,
            EVERY_POOL,
            f'"{EVERY_POOL}" is reserved: overrides use it for all pools; choose another name',
        ),
        (
            values.PoolName,
            "l40s!",
            '"l40s!" is not a name; write up to 63 letters, digits, dots, dashes or underscores, such as l40s',
        ),
        (values.Month, "2026-13", '"2026-13" is not a month; write year and month, such as 2026-11'),
        (values.Month, "", "is empty; give it a value or remove the key"),
        (values.Text, "  ", "is empty; give it a value or remove the key"),
        (values.Text, ["a"], "must be one value, not a list; write one value"),
        (values.Text, {"a": "b"}, "must be one value, not a mapping; write one value"),
        (values.Whole, "a", '"a" is not a whole number; write digits only, such as 8'),
        (values.Whole, "", "is empty; give it a value or remove the key"),
        (values.Whole, ["1"], "must be one value, not a list; write one value"),
        (values.Celsius, "130", '"130" is too high; write at most 120'),
        (bool, "maybe", '"maybe" is neither true nor false; write true or false'),
        (
            values.TaintEffect,
            "NoSchedul",
            'must be NoSchedule or PreferNoSchedule or NoExecute, not "NoSchedul"; did you mean NoSchedule?',
        ),
        (
            values.TaintEffect,
            "all",
            'must be NoSchedule or PreferNoSchedule or NoExecute, not "all"; write one of them',
        ),
        (TWO, ["a", "b", "c"], "has 3 entries; write at most 2"),
        (Part, {}, "is missing; add size"),
        (Whole3, {"part": {"size": "1", "nane": "y"}}, "unknown key; use one of: "),
        (bytes, 1, "input should be a valid bytes; correct it"),
    ],
)
def test_a_value_is_refused_with_its_remedy(kind: Any, value: Any, why: str) -> None:
    assert refusal(kind, value) == why


def test_a_value_that_is_refused_leaves_nothing_in_memory() -> None:
    """Annotations are read of every pod, for as long as the server runs."""

    def refusals() -> int:
        gc.collect()
        return sum(type(found) is Wrong for found in gc.get_objects())

    before = refusals()
    for _ in range(3):
        with suppress(Wrong):
            parse(LongerThanZero, "soon")
    assert refusals() == before


@pytest.mark.parametrize(
    ("length", "spelt"),
    [
        (timedelta(0), "0s"),
        (90 * SECOND, "1m30s"),
        (1.5 * SECOND, "1s500ms"),
        (timedelta(milliseconds=5), "5ms"),
    ],
)
def test_a_length_is_written_as_it_is_read(length: timedelta, spelt: str) -> None:
    assert spell_duration(length) == spelt


@pytest.mark.parametrize(
    ("path", "spelt"),
    [
        (("pools", 0, "max_nodes"), "pools[0].max_nodes"),
        (("resources", "nvidia.com/gpu"), "resources[nvidia.com/gpu]"),
        ((), ""),
    ],
)
def test_a_path_is_written_as_people_write_it(path: values.Path, spelt: str) -> None:
    assert spell(path) == spelt


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (Mistake(path="a", problem="is wrong", remedy="fix it"), "a: is wrong; fix it"),
        (Mistake(path="a", problem="is wrong"), "a: is wrong"),
        (Mistake(path="", problem="is wrong"), "is wrong"),
    ],
)
def test_a_mistake_says_where_and_what_to_do_as_far_as_it_knows(mistake: Mistake, said: str) -> None:
    assert str(mistake) == said


@pytest.mark.parametrize(
    ("word", "remedy"), [("Naem", "did you mean name?"), ("colour", "use one of: name, size")], ids=["similar", "other"]
)
def test_for_an_unknown_word_the_similar_one_is_named_or_all_are(word: str, remedy: str) -> None:
    assert did_you_mean(word, ["name", "size"]) == remedy


def test_of_many_keys_similar_ones_are_named_and_where_all_are() -> None:
    _, mistakes = load(Configuration, "warmup: 1m\nname: a\npools: []")
    assert [(mistake.path, mistake.remedy) for mistake in mistakes if mistake.problem == "unknown key"] == [
        ("warmup", "did you mean warm_up?"),
        ("name", "similar: mode, cluster_name; docs/configuration.md has every key"),
    ]


# --- sections


def test_a_file_without_mistakes_is_read() -> None:
    loaded, found = load(Whole3, "part: {size: 2}\nparts: [{size: 3, name: a}]\nby_name: {b: {size: 4}}")
    assert not found
    assert loaded is not None
    assert loaded.part is not None
    assert (loaded.part.size, loaded.parts[0].name, loaded.by_name["b"].size) == (2, "a", 4)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("part: {name: a}", "part.size: is missing; add size: 3"),
        ("part: {size: 1, nane: a}", "part.nane: unknown key; did you mean name?"),
        ("parts: [{size: 1, nane: a}]", "parts[0].nane: unknown key; did you mean name?"),
        ("by_name: {b: {size: 1, nane: a}}", "by_name.b.nane: unknown key; did you mean name?"),
        (
            "labels: {a b: c}",
            'labels[a b]: "a b" is not a label key; write it as Kubernetes does, such as example.com/team',
        ),
        ("part: 3", "part: must be a mapping; write its keys below it, each as key: value"),
        ("parts: 3", "parts: must be a list; write each entry on a line of its own that starts with a dash"),
        ("least: 1", "least: 1 is too much; write less"),
        ("part: {size: }", "part.size: has no value; give it one or remove the key"),
        ("part: {size: 1, name: [a]}", "part.name: must be one value, not a list; write one value"),
    ],
)
def test_a_mistake_is_told_once_with_its_place(content: str, found: str) -> None:
    assert mistakes(content) == [found]


@pytest.mark.parametrize("wrong", [MOST_MISTAKES, MOST_MISTAKES + 1])
def test_of_many_mistakes_the_first_hundred_are_told(wrong: int) -> None:
    entries = "\n".join("- {size: a}" for _ in range(wrong))
    found = mistakes(f"parts:\n{entries}")
    assert len(found) == min(wrong, MOST_MISTAKES + 1)
    assert (found[-1] == str(AND_MORE)) == (wrong > MOST_MISTAKES)


@pytest.mark.parametrize("wrong", [MOST_MISTAKES, MOST_MISTAKES + 1])
def test_of_many_keys_without_a_value_the_first_hundred_are_told(wrong: int) -> None:
    content = "\n".join(f"k{n}:" for n in range(wrong))
    _, found = load(Section, content)
    assert len(found) == min(wrong, MOST_MISTAKES + 1)
    assert (found[-1] == AND_MORE) == (wrong > MOST_MISTAKES)


def test_of_many_contradictions_the_first_hundred_are_told() -> None:
    assert len(mistakes("least: 300")) == MOST_MISTAKES


# --- YAML


@pytest.mark.parametrize(
    ("content", "document"),
    [
        ("a: 1\nb: [x, {c: y}]", {"a": "1", "b": ["x", {"c": "y"}]}),
        ("a: 20:00\nb: on\nc: 0123", {"a": "20:00", "b": "on", "c": "0123"}),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": "1"}, "c": {"b": "1"}}),
        ("a: &x [1]\nc: *x", {"a": ["1"], "c": ["1"]}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": "1", "c": "2"}, "d": {"b": "1", "c": "3"}}),
        (
            "a: &x {c: 1}\nb: &y {c: 2, d: 2}\ne: {<<: [*x, *y]}",
            {"a": {"c": "1"}, "b": {"c": "2", "d": "2"}, "e": {"c": "1", "d": "2"}},
        ),
        ("\n".join(f"k{n}: [[x]]" for n in range(DEEPEST)), {f"k{n}": [["x"]] for n in range(DEEPEST)}),
    ],
    ids=["nested", "text alone", "an alias", "an alias of a list", "merged", "merged from two", "many lists"],
)
def test_a_file_is_read_as_text(content: str, document: values.Document) -> None:
    assert read(content) == (document, [])


@pytest.mark.parametrize(
    ("content", "document", "found"),
    [
        ("a:", {}, "a: has no value; give it one or remove the key"),
        ("a: 1\na: 2", {"a": "1"}, "a: is given twice (lines 1 and 2); keep one of them"),
        ("{a: 1, a: 2}", {"a": "1"}, "a: is given twice (line 1); keep one of them"),
        ("a: !x 1", {}, "a: has the unknown tag !x; write the value as plain text"),
        ("a: &x {b: *x}", {"a": {}}, "a.b: contains itself; remove the alias"),
        ("a: &x [*x]", {"a": [None]}, "a[0]: contains itself; remove the alias"),
        ("a: {<<: 1}", {"a": {}}, "a[<<]: must name a mapping; point it at an anchor of a mapping"),
        ("a: &x {<<: *x}", {"a": {}}, "a[<<]: must name a mapping; point it at an anchor of a mapping"),
        ("a: 1\n? [b]\n: 1", {"a": "1"}, "line 2 has a key that is not a word; write keys as plain text"),
    ],
)
def test_a_mistake_of_yaml_leaves_the_rest_readable(content: str, document: values.Document, found: str) -> None:
    left, noted = read(content)
    assert (left, [str(mistake) for mistake in noted]) == (document, [found])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "the file is empty; list at least one pool under pools"),
        ("- a", "the file is not a mapping; start it with keys such as pools:"),
        (
            "a: 1\nb: [",
            (
                "the file is not YAML: did not find expected node content at line 3, column 1; "
                "check indentation, colons and quotes there"
            ),
        ),
        (
            "a: 1\n\tb: 2",
            (
                "the file is not YAML: found a tab character that violates indentation at line 2, column 1; "
                "indent with spaces, not tabs"
            ),
        ),
    ],
)
def test_what_is_no_document_is_refused_whole(content: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(content)
    assert str(refused.value) == why
    assert mistakes(content) == [why]


def test_a_character_that_yaml_forbids_is_named() -> None:
    with pytest.raises(ConfigError, match=r"^the file is not YAML: .*control characters are not allowed"):
        read("a: \x07")


# --- what is larger than any configuration


def nested(lists: int) -> str:
    """A mapping with so many lists in each other."""
    return f"a: {'[' * lists}{']' * lists}"


@pytest.mark.parametrize(
    "content",
    [
        f"a: [{'1,' * (MOST_VALUES - 2)}]",
        f"? [{'1,' * (2 * MOST_VALUES - 2)}]\n: 1",
        f"a: {'x' * (MOST_CHARACTERS - 1)}",
        f"{'k' * LONGEST_KEY}: {'x' * (LONGEST_KEY + 1)}",
        nested(DEEPEST),
    ],
    ids=["values", "values in a key", "characters", "a key", "levels"],
)
def test_the_largest_file_is_read(content: str) -> None:
    read(content)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (f"a: [{'1,' * (MOST_VALUES - 1)}]", TOO_MANY),
        (f"? [{'1,' * (2 * MOST_VALUES - 1)}]\n: 1", TOO_MANY),
        (f"a: {'x' * MOST_CHARACTERS}", f"holds more than {MOST_CHARACTERS} characters"),
        (f"? {'k' * (LONGEST_KEY + 1)}\n: x", f"has a key of more than {LONGEST_KEY} characters"),
        (nested(DEEPEST + 1), TOO_DEEP),
        (nested(100_000), TOO_DEEP),
        (f"a: &x [{'1,' * 1000}]\nb: [{'*x,' * 30}]", TOO_MANY),
    ],
    ids=["values", "values in a key", "characters", "a key", "levels", "many levels", "aliases"],
)
def test_a_larger_file_is_refused(content: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(content)
    assert str(refused.value) == f"the file {why}; use fewer aliases and levels"
