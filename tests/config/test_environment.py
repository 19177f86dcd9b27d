"""The environment, with the file and without it; secrets stay out of every message and every print."""

from pathlib import Path

import pytest

from receiver.config import ConfigError, Settings, load
from receiver.config.environment import DATABASE, SECRET, split_name
from receiver.core.notices.notice import Severity
from receiver.core.notices.routing import Format, Route
from tests.config.builders import ENVIRONMENT, one_pool


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(one_pool())
    return path


def loaded(file: Path, **more: str) -> Settings:
    return load({**ENVIRONMENT, "GPU_AUTOSCALER_CONFIG": str(file), **more})


def mistakes(file: Path, **more: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        loaded(file, **more)
    return str(refused.value).splitlines()


def test_the_required_variables_are_enough(file: Path) -> None:
    settings = loaded(file)
    environment = settings.environment
    assert environment.civo_api_key.get_secret_value() == ENVIRONMENT["CIVO_API_KEY"]
    assert (environment.civo_region, environment.civo_cluster_id) == ("LON1", "cluster-1")
    assert environment.civo_api_url == "https://api.civo.com"
    assert [t.get_secret_value() for t in environment.webhook_tokens] == [ENVIRONMENT["GPU_AUTOSCALER_WEBHOOK_TOKEN"]]
    assert environment.operator_token is None
    assert environment.database_url.get_secret_value() == "sqlite:////var/lib/gpu-autoscaler/ledger.db"
    assert environment.notify_urls == ()
    assert (environment.listen, environment.url) == ("0.0.0.0:8080", "http://127.0.0.1:8080")
    assert environment.kubeconfig is None
    assert settings.policy.pools[0].name == "l40s"
    assert settings.warnings == ()


@pytest.mark.parametrize(
    "name",
    ["CIVO_API_KEY", "CIVO_REGION", "CIVO_CLUSTER_ID", "GPU_AUTOSCALER_CONFIG", "GPU_AUTOSCALER_WEBHOOK_TOKEN"],
)
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_required_variable_that_is_missing_or_empty_is_named_with_its_remedy(
    file: Path, name: str, value: str | None
) -> None:
    environ = {**ENVIRONMENT, "GPU_AUTOSCALER_CONFIG": str(file), name: value}
    with pytest.raises(ConfigError) as refused:
        load({key: said for key, said in environ.items() if said is not None})
    (mistake,) = refused.value.mistakes
    assert mistake.path == name
    assert mistake.problem == "is not set"
    assert mistake.remedy


def test_mistakes_of_file_and_environment_are_listed_together(file: Path) -> None:
    file.write_text(one_pool("min_nodes: 9"))
    said = mistakes(file, CIVO_REGION="", GPU_AUTOSCALER_LISTEN="8080")
    assert [line.split(":")[0] for line in said] == ["CIVO_REGION", "GPU_AUTOSCALER_LISTEN", "pools[0].max_nodes"]


def test_a_configuration_file_that_is_not_there_is_a_mistake_among_others(tmp_path: Path) -> None:
    said = mistakes(tmp_path / "nowhere.yaml", CIVO_REGION="")
    assert len(said) == 2
    assert "nowhere.yaml" in said[1]


def test_secrets_are_in_no_print_of_the_settings(file: Path) -> None:
    secrets = {
        "GPU_AUTOSCALER_OPERATOR_TOKEN": "operator-token-that-is-secret",
        "GPU_AUTOSCALER_READER_TOKEN": "reader-token-that-is-secret-too",
        "GPU_AUTOSCALER_DATABASE_URL": "postgresql+psycopg://me:s3cret@db/ledger",
        "GPU_AUTOSCALER_NOTIFY_URLS": "slack://s3cret/b/c",
        "GPU_AUTOSCALER_TEAM_NOTIFY_URLS": "vision=slack://s3cret/b/c",
    }
    settings = loaded(file, **secrets)
    printed = repr(settings) + str(settings) + repr(settings.environment) + settings.environment.model_dump_json()
    for secret in (*ENVIRONMENT.values(), *secrets.values(), "s3cret"):
        if secret not in ("LON1", "cluster-1"):
            assert secret not in printed


@pytest.mark.parametrize("name", sorted(SECRET))
def test_a_secret_may_come_from_a_file(file: Path, tmp_path: Path, name: str) -> None:
    url = "sqlite:////data/ledger.db" if name.endswith("DATABASE_URL") else "json://secret-from-a-file-on-disk"
    (tmp_path / "secret").write_text(f"vision={url}\n" if "TEAM" in name else f"{url}\n")
    environ = {**ENVIRONMENT, "GPU_AUTOSCALER_CONFIG": str(file), f"{name}_FILE": str(tmp_path / "secret")}
    environ.pop(name, None)
    environment = load(environ).environment
    held = (
        environment.civo_api_key,
        *environment.webhook_tokens,
        *environment.notify_urls,
        *environment.team_notify_urls.get("vision", ()),
        environment.database_url,
        environment.operator_token,
        environment.reader_token,
    )
    assert url in [secret.get_secret_value() for secret in held if secret]


def test_a_secret_file_that_cannot_be_read_is_named_once(file: Path) -> None:
    said = mistakes(file, CIVO_API_KEY="", CIVO_API_KEY_FILE="/nowhere/key")
    assert said == ["CIVO_API_KEY_FILE: names a file that cannot be read; mount it there, readable by this process"]


@pytest.mark.parametrize("name", ["GPU_AUTOSCALER_NOTIFY_URLS", "GPU_AUTOSCALER_READER_TOKEN"])
def test_an_optional_key_that_a_mounted_secret_lacks_is_not_set(file: Path, tmp_path: Path, name: str) -> None:
    missing = {f"{name}_FILE": str(tmp_path / "key")}
    assert mistakes(file, **missing) == [
        f"{name}_FILE: names a file that cannot be read; mount it there, readable by this process"
    ]
    (tmp_path / "..data").mkdir()  # Kubernetes' own
    assert loaded(file, **missing)


def test_the_operators_token_must_be_in_a_mounted_secret(file: Path, tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    [said] = mistakes(file, GPU_AUTOSCALER_OPERATOR_TOKEN_FILE=str(tmp_path / "key"))
    assert "names a file that cannot be read" in said


def test_a_secret_that_is_given_twice_is_refused(file: Path, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("x")
    said = mistakes(file, CIVO_API_KEY_FILE=str(tmp_path / "key"))
    assert said == ["CIVO_API_KEY: is set and so is CIVO_API_KEY_FILE; set one of them"]


def test_two_webhook_tokens_serve_a_rotation(file: Path) -> None:
    environment = loaded(
        file, GPU_AUTOSCALER_WEBHOOK_TOKEN="new-token-of-some-length\nold-token-of-some-length"
    ).environment
    assert len(environment.webhook_tokens) == 2


def test_destinations_are_split_at_white_space_and_keep_their_commas(file: Path) -> None:
    environment = loaded(file, GPU_AUTOSCALER_NOTIFY_URLS="tgram://1/a,b\n  mailto://x@y?to=a,b\t").environment
    assert [url.get_secret_value() for url in environment.notify_urls] == ["tgram://1/a,b", "mailto://x@y?to=a,b"]


@pytest.mark.parametrize(
    ("entry", "name", "url"),
    [
        ("slack://a/b/c", "", "slack://a/b/c"),
        ("pager=pagerduty://key@integration", "pager", "pagerduty://key@integration"),
        ("team.a_1-b=json://x?to=y", "team.a_1-b", "json://x?to=y"),
        ("json://x?to=https://y", "", "json://x?to=https://y"),
        ("-a=json://x", "", "-a=json://x"),
        ("=json://x", "", "=json://x"),
    ],
)
def test_a_destination_may_have_a_name(entry: str, name: str, url: str) -> None:
    assert split_name(entry) == (name, url)


def with_destinations(file: Path, sections: str) -> Path:
    file.write_text(f"notify: {{destinations: {sections}}}\n" + one_pool())
    return file


def test_a_filter_whose_name_has_no_url_is_warned_of(file: Path) -> None:
    with_destinations(file, "{pager: {level: failure}}")
    (said,) = loaded(file, GPU_AUTOSCALER_NOTIFY_URLS="pagr=json://x").warnings
    assert said == (
        "notify.destinations.pager: has no URL, so nothing is sent there; add pager=URL to GPU_AUTOSCALER_NOTIFY_URLS"
    )


def test_pools_of_a_filter_may_be_names_or_ids(file: Path) -> None:
    with_destinations(file, "{a: {pools: [l40s]}, b: {pools: [5f3c]}, c: {}}")
    routes = loaded(file, GPU_AUTOSCALER_NOTIFY_URLS="a=json://a b=json://b c=json://c").routes
    assert [set(routes[name].pools) for name in "abc"] == [{"5f3c"}, {"5f3c"}, set()]


def test_what_a_filter_says_becomes_its_route(file: Path) -> None:
    budget = "budget: {monthly_usd: 5, teams: {vision: 5}}\n"
    section = "{level: warning, kinds: [grew], teams: [vision], format: text}"
    file.write_text(f"notify: {{destinations: {{a: {section}}}}}\n" + one_pool(top=budget))
    assert loaded(file, GPU_AUTOSCALER_NOTIFY_URLS="a=json://a").routes == {
        "a": Route(
            level=Severity.WARNING,
            kinds=frozenset({"grew"}),
            teams=frozenset({"vision"}),
            format=Format.TEXT,
        )
    }


@pytest.mark.parametrize("url", ["slack://s3cret/b/c", "https:///s3cret"])
def test_events_need_a_web_address(file: Path, url: str) -> None:
    with_destinations(file, "{events: {format: cloudevents}}")
    assert mistakes(file, GPU_AUTOSCALER_NOTIFY_URLS=f"events={url}") == [
        "notify.destinations.events.format: needs an https URL; write an https URL in GPU_AUTOSCALER_NOTIFY_URLS"
    ]


def test_events_without_encryption_are_warned_of_except_on_this_machine(file: Path) -> None:
    with_destinations(file, "{events: {format: cloudevents}}")
    assert loaded(file, GPU_AUTOSCALER_NOTIFY_URLS="events=http://127.0.0.1:1/s3cret").warnings == ()
    (said,) = loaded(file, GPU_AUTOSCALER_NOTIFY_URLS="events=http://broker/s3cret").warnings
    assert said == "notify.destinations.events: its URL is http, so events are sent unencrypted; use https"


def test_teams_may_have_destinations_of_their_own_several_each(file: Path) -> None:
    said = "vision=tgram://1/a,b\nsearch=mailto://x@y?to=a  vision=slack://a/b/c"
    found = loaded(file, GPU_AUTOSCALER_TEAM_NOTIFY_URLS=said).environment.team_notify_urls
    assert {team: [url.get_secret_value() for url in urls] for team, urls in found.items()} == {
        "vision": ["tgram://1/a,b", "slack://a/b/c"],
        "search": ["mailto://x@y?to=a"],
    }


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("CIVO_API_URL", "api.civo.com", "is not an http or https URL"),
        ("GPU_AUTOSCALER_URL", "localhost:8080", "is not an http or https URL"),
        ("GPU_AUTOSCALER_LISTEN", "8080", "is not an address with a port"),
        ("GPU_AUTOSCALER_LISTEN", "0.0.0.0:http", "is not an address with a port"),
        ("GPU_AUTOSCALER_LISTEN", "0.0.0.0:65536", "is not an address with a port"),
        ("GPU_AUTOSCALER_LISTEN", "::1:8080", "is not an address with a port"),
        ("GPU_AUTOSCALER_DATABASE_URL", "/var/lib/s3cret.db", "is neither a SQLite nor a PostgreSQL URL"),
        ("GPU_AUTOSCALER_DATABASE_URL", "mysql://me:s3cret@db/x", "is neither a SQLite nor a PostgreSQL URL"),
        ("GPU_AUTOSCALER_NOTIFY_URLS", "slack://a/b/c s3cret", "entry 2 is not a URL"),
        ("GPU_AUTOSCALER_NOTIFY_URLS", "pager=s3cret", "entry 1 is not a URL"),
        ("GPU_AUTOSCALER_NOTIFY_URLS", "a/b=slack://s3cret/b/c", "entry 1 is not a URL"),
        (
            "GPU_AUTOSCALER_NOTIFY_URLS",
            "a=slack://s3cret/b/c b=slack://s3cret/b/c",
            "entries 1 and 2 have the same URL under two names",
        ),
        ("GPU_AUTOSCALER_TEAM_NOTIFY_URLS", "a=slack://a/b/c slack://s3cret", "entry 2 is not a team with a URL"),
        ("GPU_AUTOSCALER_TEAM_NOTIFY_URLS", "vision=s3cret", "entry 1 is not a team with a URL"),
        ("GPU_AUTOSCALER_TEAM_NOTIFY_URLS", "a/b=slack://s3cret", "entry 1 is not a team with a URL"),
        ("GPU_AUTOSCALER_OPERATOR_TOKEN", "two words-s3cret-words", "contains white space"),
        ("GPU_AUTOSCALER_OPERATOR_TOKEN", ENVIRONMENT["GPU_AUTOSCALER_WEBHOOK_TOKEN"], "is the webhook's token too"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_without_repeating_it(
    file: Path, name: str, value: str, says: str
) -> None:
    (said,) = mistakes(file, **{name: value})
    assert said.startswith(f"{name}: {says}")
    assert "; " in said
    assert "s3cret" not in said
    assert value not in said.split("; ")[0]


@pytest.mark.parametrize(
    ("written", "used"),
    [
        (":9000", "0.0.0.0:9000"),
        ("127.0.0.1:0", "127.0.0.1:0"),
        ("[::]:8080", "[::]:8080"),
        ("localhost:8080", "localhost:8080"),
    ],
)
def test_where_to_listen_is_an_address_and_a_port(file: Path, written: str, used: str) -> None:
    assert loaded(file, GPU_AUTOSCALER_LISTEN=written).environment.listen == used


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_any_spelling_of_postgresql_gets_the_driver_that_is_installed(file: Path, scheme: str) -> None:
    environment = loaded(file, GPU_AUTOSCALER_DATABASE_URL=f"{scheme}://me:pw@db:5432/ledger").environment
    assert environment.database_url.get_secret_value() == "postgresql+psycopg://me:pw@db:5432/ledger"


@pytest.mark.parametrize(
    ("name", "value", "warning"),
    [
        ("CIVO_API_URL", "http://api.example.org", "CIVO_API_URL: is http, so the API key is sent unencrypted"),
        ("GPU_AUTOSCALER_WEBHOOK_TOKEN", "short", "GPU_AUTOSCALER_WEBHOOK_TOKEN: is shorter than 16"),
        ("GPU_AUTOSCALER_OPERATOR_TOKEN", "brief", "GPU_AUTOSCALER_OPERATOR_TOKEN: is shorter than 16"),
        ("GPU_AUTOSCALER_DATABASE_URL", "sqlite://", "GPU_AUTOSCALER_DATABASE_URL: is in memory"),
        ("GPU_AUTOSCALER_DATABASE_URL", "sqlite:///:memory:", "GPU_AUTOSCALER_DATABASE_URL: is in memory"),
        ("GPU_AUTOSCALER_DATABASE_URL", "sqlite:///ledger.db", "GPU_AUTOSCALER_DATABASE_URL: is relative"),
        ("GPU_AUTOSCALER_LISTN", "x", "GPU_AUTOSCALER_LISTN: unknown variable; did you mean GPU_AUTOSCALER_LISTEN?"),
    ],
)
def test_an_odd_variable_is_warned_of(file: Path, name: str, value: str, warning: str) -> None:
    (said,) = loaded(file, **{name: value}).warnings
    assert said.startswith(warning)


def test_variables_that_kubernetes_sets_for_a_service_are_no_typos(file: Path) -> None:
    linked = {
        "GPU_AUTOSCALER_PORT": "tcp://10.0.0.1:8080",
        "GPU_AUTOSCALER_SERVICE_HOST": "10.0.0.1",
        "GPU_AUTOSCALER_PORT_8080_TCP_ADDR": "10.0.0.1",
    }
    assert loaded(file, **linked).warnings == ()


def test_a_simulator_on_this_machine_may_be_plain_http(file: Path) -> None:
    settings = loaded(file, CIVO_API_URL="http://127.0.0.1:8900/")
    assert settings.environment.civo_api_url == "http://127.0.0.1:8900"
    assert settings.warnings == ()


def test_a_relative_price_file_is_looked_for_beside_the_configuration(file: Path) -> None:
    (file.parent / "prices.yaml").write_text(
        "as_of: 2026-11-01\nsource: our contract\nsizes: {an.g1.l40s.kube.x1: {usd_per_hour: 0.99}}\n"
    )
    file.write_text("prices_file: prices.yaml\n" + one_pool())
    assert str(loaded(file).policy.pools[0].price_usd_per_hour) == "0.99"


def test_the_default_store_is_an_absolute_path() -> None:
    assert DATABASE.startswith("sqlite:////")


# --- who may read


CLOSED = "web: {reading: token}\n"


def test_everybody_reads_unless_the_file_says_otherwise(file: Path) -> None:
    assert loaded(file).configuration.web.reading == "open"


@pytest.mark.parametrize("whose", ["OPERATOR", "READER"])
def test_reading_takes_a_token_where_the_file_says_so_and_one_is_set(file: Path, whose: str) -> None:
    file.write_text(CLOSED + file.read_text())
    settings = loaded(file, **{f"GPU_AUTOSCALER_{whose}_TOKEN": "a-word-of-more-than-sixteen"})
    assert (settings.configuration.web.reading, settings.warnings) == ("token", ())


def test_reading_that_takes_a_token_without_one_is_refused_with_its_remedy(file: Path) -> None:
    file.write_text(CLOSED + file.read_text())
    [said] = mistakes(file)
    assert said == (
        "web.reading: is token, and no token is set, so the pages cannot be opened; "
        "set GPU_AUTOSCALER_OPERATOR_TOKEN or GPU_AUTOSCALER_READER_TOKEN, or write open"
    )


def test_a_readers_token_that_nobody_needs_is_odd(file: Path) -> None:
    assert loaded(file, GPU_AUTOSCALER_READER_TOKEN="a-word-of-more-than-sixteen").warnings == (
        "GPU_AUTOSCALER_READER_TOKEN: is unused while web.reading is open; write web: {reading: token}",
    )


@pytest.mark.parametrize(
    ("token", "says"),
    [
        (
            ENVIRONMENT["GPU_AUTOSCALER_WEBHOOK_TOKEN"],
            "is the webhook's token too, so readers could send alerts",
        ),
        ("operator-token-of-some-length", "is the operator's token too, so readers could change things"),
        ("two words-of-some-length", "contains white space"),
    ],
)
def test_the_readers_token_is_one_word_and_no_others(file: Path, token: str, says: str) -> None:
    [said] = mistakes(
        file, GPU_AUTOSCALER_READER_TOKEN=token, GPU_AUTOSCALER_OPERATOR_TOKEN="operator-token-of-some-length"
    )
    assert said == f"GPU_AUTOSCALER_READER_TOKEN: {says}; set {'one' if ' ' in token else 'another'} long random word"


def test_a_short_readers_token_is_odd(file: Path) -> None:
    file.write_text(CLOSED + file.read_text())
    [odd] = loaded(file, GPU_AUTOSCALER_READER_TOKEN="short").warnings
    assert odd == "GPU_AUTOSCALER_READER_TOKEN: is shorter than 16 characters and can be guessed"


TLS = Path(__file__).parents[1] / "e2e" / "tls"


def test_a_certificate_and_its_key_are_taken_together(file: Path) -> None:
    cert, key = str(TLS / "cert.pem"), str(TLS / "key.pem")
    assert loaded(file, GPU_AUTOSCALER_TLS_CERT_FILE=cert, GPU_AUTOSCALER_TLS_KEY_FILE=key)


@pytest.mark.parametrize(
    ("cert", "key", "says"),
    [
        ("cert.pem", "", "GPU_AUTOSCALER_TLS_KEY_FILE: is not set and the other one is; set both, or none for http"),
        ("", "key.pem", "GPU_AUTOSCALER_TLS_CERT_FILE: is not set and the other one is; set both, or none for http"),
        ("cert.pem", "cert.pem", "GPU_AUTOSCALER_TLS_CERT_FILE: and the key's file cannot be used together"),
        ("cert.pem", "none.pem", "GPU_AUTOSCALER_TLS_CERT_FILE: and the key's file cannot be used together"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_told_before_the_server_listens(
    file: Path, cert: str, key: str, says: str
) -> None:
    names = {"GPU_AUTOSCALER_TLS_CERT_FILE": cert, "GPU_AUTOSCALER_TLS_KEY_FILE": key}
    (said,) = mistakes(file, **{name: str(TLS / value) if value else "" for name, value in names.items()})
    assert said.startswith(says)
