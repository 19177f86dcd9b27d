"""Every command of ours that a page shows is one that the program takes."""

import re
from collections.abc import Iterator

import pytest

from receiver.web.app import create_app
from tests.docs.commands import commands, fenced, queries, spans, taken, words_of
from tests.docs.pages import every_page, in_pages, section, text_of
from tests.lint import none_of
from tests.rules.files import RULES, run
from tests.web.builders import TOKEN, Bench


def refused(text: str) -> Iterator[str]:
    """Yield the commands of ours in *text* that the program does not take, and its objection."""
    for words in commands(text, "gpu-autoscaler"):
        if objection := taken(words[1:]):
            yield f"{' '.join(words)}: {objection}"


def test_our_command_line_takes_every_command_of_ours() -> None:
    none_of(in_pages(refused))


def test_every_change_from_within_the_pod_names_its_author_because_the_image_has_no_login_name() -> None:
    texts = {**every_page(), "NOTES.txt": text_of("k8s/chart/templates/NOTES.txt")}
    said = [line for text in texts.values() for line in text.splitlines() if "exec deployment/gpu-autoscaler" in line]
    changing = [
        line
        for line in said
        if re.search(r"gpu-autoscaler (pause|override (set|end)|approvals (approve|reject)|budget (re)?set) ", line)
    ]
    assert changing
    none_of(line for line in changing if " --who " not in line)


def test_every_address_of_ours_that_is_asked_is_served() -> None:
    ours = re.compile(r"(?:\$GPU_AUTOSCALER_URL|127\.0\.0\.1:8080|svc:8080)(/[\w/-]*)")
    urls = create_app(Bench().parts()).url_map.bind("here")
    none_of(in_pages(lambda text: [path for path in ours.findall(text) if not urls.allowed_methods(path)]))


def test_an_empty_payload_sent_by_hand_proves_the_way_and_the_token() -> None:
    page = text_of("docs/runbooks/GpuAutoscalerWebhooksFail.md")
    [words] = [words for words in commands(page, "curl") if words[-1].endswith("/webhook")]
    [said] = [word for word in words if word.startswith("Authorization")]
    client = Bench().client()
    answers = []
    for token in (TOKEN, "another one"):
        header, _, value = said.replace("$GPU_AUTOSCALER_WEBHOOK_TOKEN", token).partition(": ")
        answer = client.post("/webhook", data=words[words.index("-d") + 1], headers={header: value})
        answers.append(answer.status_code)
    assert answers == [400, 401]
    assert "are right if it answers 400" in page


def test_every_part_of_troubleshooting_says_what_to_type_or_where_to_look() -> None:
    text = text_of("docs/troubleshooting.md")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    silent = [title for title, part in zip(parts[::2], parts[1::2], strict=True) if not list(fenced(part))]
    looked = {title: section(text, title) for title in silent}
    assert [title for title, part in looked.items() if "](" not in part and "`" not in part] == []


def test_amtool_takes_what_routes_are_tested_with() -> None:
    found = [words for text in every_page().values() for words in commands(text, "amtool")]
    asked = [words for words in found if words[1:3] == ["config", "routes"]]
    assert asked
    for words in asked:
        said = [f"--config.file={RULES / 'alertmanager.yml'}" if w.startswith("--config.file=") else w for w in words]
        assert run(*said).stdout.strip().split(",")[0] == "gpu-autoscaler"


def test_a_command_is_found_without_what_it_is_piped_to() -> None:
    text = (
        "Try `kubectl get pods | grep x` or `kubectl`:\n\n```sh\n# first\nkubectl logs -l a=b \\\n --tail=-1 > f\n```\n"
    )
    assert commands(text, "kubectl") == [["kubectl", "logs", "-l", "a=b", "--tail=-1"], ["kubectl", "get", "pods"]]
    assert words_of("curl -s 'a|b' # why") == ["curl", "-s", "a|b"]
    assert list(spans(text)) == ["kubectl get pods | grep x", "kubectl"]
    assert len(list(fenced(text))) == 1


def test_a_query_is_what_begins_a_bullet_and_is_no_command() -> None:
    text = "- `a:b` : who\n- `kubectl get pods` : which\n- see `/rules`\n- `c` and `d` in Prometheus: `gpu`\n"
    assert queries(text) == ["a:b", "c", "d"]


@pytest.mark.parametrize(
    ("said", "objection"),
    [
        ("explain pod NAMESPACE/NAME", None),
        ("override", None),
        ("override set l40s --exactly NODES --for 2h --why x --who YOU", None),
        ("override set l40s --exactly four --for 2h --why x", "is not a valid integer"),
        ("overrides list", "No such command"),
        ("budget set USD --who YOU", "Missing option '--why'"),
        ("budget set USD --why x", "add --who and your name"),
    ],
)
def test_a_command_of_ours_that_cannot_work_is_told(said: str, objection: str | None) -> None:
    told = taken(said.split())
    assert (told is None) if objection is None else (objection in (told or ""))
