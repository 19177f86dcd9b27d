"""Every command of ours that the program says in messages, pages and errors works where the quick start puts people:
in the pod, whose user has no name."""

from tests.docs.commands import taken
from tests.docs.told import ROOT, commands_of, everything_told, texts_of_code
from tests.lint import none_of

# Sentences about the program, and salts of signatures.
NO_COMMANDS = frozenset(
    {
        "answer to a question",
        "answers by what the budgets cover",
        "buys nodes for all pods or for none",
        "session of",
    }
)


def test_every_command_that_is_said_works_in_the_pod() -> None:
    said = [(where, words) for where, text in everything_told() for words in commands_of(text)]
    assert len(said) > 60
    wrong = {
        f"{where}: gpu-autoscaler {' '.join(words)}: {objection}"
        for where, words in said
        if " ".join(words) not in NO_COMMANDS and (objection := taken(words, whole=True))
    }
    none_of(sorted(wrong))


def test_commands_are_found_within_sentences_and_with_values() -> None:
    text = (
        'raise it (gpu-autoscaler budget set 5 --why "a b"), or `gpu-autoscaler approvals`; kubectl -n gpu-autoscaler x'
    )
    assert list(commands_of(text)) == [["budget", "set", "5", "--why", "a b"], ["approvals"]]
    texts = list(texts_of_code(ROOT / "receiver" / "core" / "money" / "budget.py"))
    assert "gpu-autoscaler budget set 1 --why REASON --who YOU" in texts


def test_a_command_without_its_author_or_its_arguments_is_found() -> None:
    assert "add --who and your name" in (taken(["budget", "set", "5", "--why", "x"], whole=True) or "")
    assert "Missing argument 'NAME'" in (taken(["explain", "pool"], whole=True) or "")
    assert taken(["override", "end", "ID"], whole=True) is None  # the server takes it without a name
