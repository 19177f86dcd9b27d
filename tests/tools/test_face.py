"""What a person meets first stays small."""

from tools.face import counts


def test_what_is_met_first_is_16_keys_seven_commands_three_pages_and_five_alerts() -> None:
    first = {count.what: count.first for count in counts()}
    options = first.pop("options")
    assert first == {"keys of the configuration": 16, "commands": 7, "pages": 3, "alerts": 5}
    assert options <= 55


def test_the_rest_is_less_than_it_was_before() -> None:
    found = {count.what: count for count in counts()}
    for what in ("keys of the configuration", "options"):
        assert found[what].all < (found[what].before or 0)
