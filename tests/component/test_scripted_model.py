"""The scripted model answers as its script says, in each of the formats that agents speak."""

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.support.scripted_model import ScriptedModel
from tests.support.scripted_requests import Ask, Json

TOOL: Json = {"name": "my_echo", "input_schema": {}}


@pytest.fixture
def model(run_dir: Path) -> Iterator[ScriptedModel]:
    with ScriptedModel(run_dir) as running:
        yield running


def body_of(api: str, text: str, *, tools: bool = True) -> tuple[str, Json]:
    """Path and body of a streaming request with one user text."""
    function = {"type": "function", "function": {"name": "my_echo"}}
    bodies: dict[str, tuple[str, Json, str, list[Json]]] = {
        "anthropic": ("/v1/messages", {"messages": [{"role": "user", "content": text}]}, "tools", [TOOL]),
        "responses": ("/v1/responses", {"input": text}, "tools", [TOOL]),
        "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]}, "tools", [function]),
        "gemini": (
            "/v1beta/models/gem:streamGenerateContent",
            {"contents": [{"role": "user", "parts": [{"text": text}]}]},
            "tools",
            [{"functionDeclarations": [TOOL]}],
        ),
    }
    path, body, key, offered = bodies[api]
    return path, {"model": "scripted-1", "stream": True, **body, **({key: offered} if tools else {})}


def ask(model: ScriptedModel, api: str, text: str, *, tools: bool = True) -> httpx.Response:
    path, body = body_of(api, text, tools=tools)
    return httpx.post(model.url + path, json=body, timeout=5)


def events_of(answer: httpx.Response) -> list[Json]:
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ") and line != "data: [DONE]"]
    return [json.loads(line) for line in lines]


APIS = ("anthropic", "responses", "chat", "gemini")


@pytest.mark.parametrize("api", APIS)
def test_text_and_a_tool_call_are_streamed(model: ScriptedModel, api: str) -> None:
    call: Json = {"tool": "~echo", "args": {"text": "x"}}
    model.play([{"match": "^hi$", "turns": [[{"thinking": "hm"}, {"text": ["Hel", "lo"]}, call]]}])
    answer = ask(model, api, "hi")
    said = json.dumps(events_of(answer))
    assert answer.status_code == 200
    for word in ('"Hel"', '"lo"', "my_echo", "hm"):
        assert word in said
    (entry,) = model.asked(api)
    assert (entry["user"], entry["turn"], entry["tools"], entry["outcome"]) == ("hi", 0, ["my_echo"], "ok")


@pytest.mark.parametrize("api", APIS)
def test_an_error_comes_as_often_as_the_script_says(model: ScriptedModel, api: str) -> None:
    model.play([{"match": "hi", "turns": [[{"error": {"status": 429, "retry_after": 2, "times": 1}}, {"text": "ok"}]]}])
    first, second = ask(model, api, "hi"), ask(model, api, "hi")
    assert (first.status_code, first.headers["retry-after"]) == (429, "2")
    assert second.status_code == 200
    assert [entry["outcome"] for entry in model.asked()] == ["error 429", "ok"]


def test_a_request_without_tools_gets_a_plain_word_or_the_smallest_object_of_its_schema(model: ScriptedModel) -> None:
    assert "title" in ask(model, "anthropic", "hi", tools=False).text
    path, body = body_of("gemini", "which model?", tools=False)
    schema = {"type": "object", "properties": {"choice": {"enum": ["flash", "pro"]}, "n": {"type": "integer"}}}
    body["generationConfig"] = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    (part, *_) = events_of(httpx.post(model.url + path, json=body))
    text = part["candidates"][0]["content"]["parts"][0]["text"]
    assert json.loads(text) == {"choice": "flash", "n": 1}


def test_an_answer_waits_at_its_gate_until_the_gate_is_opened(model: ScriptedModel) -> None:
    model.play([{"match": "hold", "turns": [[{"text": "a"}, {"gate": "go"}, {"text": "b"}]]}])
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, model, "chat", "hold")
        assert model.gate("go").reached.wait(5)
        assert not answer.done()
        httpx.post(f"{model.url}/_control/open/go")
        assert '"b"' in answer.result(5).text


def test_a_dropped_connection_and_a_broken_stream_are_seen_by_the_agent(model: ScriptedModel) -> None:
    model.play(
        [
            {"match": "drop", "turns": [[{"text": "a"}, {"disconnect": True}]]},
            {"match": "break", "turns": [[{"text": "a"}, {"stream_error": {"type": "overloaded_error"}}]]},
        ]
    )
    with pytest.raises(httpx.RemoteProtocolError):
        ask(model, "anthropic", "drop")
    assert events_of(ask(model, "anthropic", "break"))[-1]["error"]["type"] == "overloaded_error"


CONTEXT = {"role": "user", "content": "<system-reminder>x</system-reminder>"}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}


@pytest.mark.parametrize(
    ("messages", "user", "turn"),
    [
        ([{"role": "user", "content": "one"}], "one", 0),
        ([{"role": "user", "content": "one"}, RESULT], "one", 1),
        ([{"role": "user", "content": "one"}, RESULT, {"role": "user", "content": "two"}], "two", 0),
        ([{"role": "user", "content": "<system-reminder>no</system-reminder> one"}], "one", 0),
        ([{"role": "user", "content": "one"}, CONTEXT], "one", 0),
    ],
    ids=["a prompt", "after a tool", "the next prompt", "context is no prompt", "context alone is nothing"],
)  # fmt: skip
def test_the_turn_is_read_from_the_conversation(messages: list[Json], user: str, turn: int) -> None:
    read = Ask("anthropic", "/v1/messages", {"messages": messages})
    assert (read.user, read.turn) == (user, turn)


def test_it_runs_as_a_program_that_prints_its_port(run_dir: Path) -> None:
    script = run_dir / "script.json"
    script.write_text(json.dumps({"default": [[{"text": "from a file"}]]}))
    command = [sys.executable, "-m", "tests.support.scripted_model", "--script", str(script)]
    with subprocess.Popen([*command, "--log", str(run_dir / "log")], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        url = f"http://127.0.0.1:{int(running.stdout.readline())}"
        path, body = body_of("anthropic", "hi")
        assert "from a file" in httpx.post(url + path, json=body).text
        assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "scripted-1"
        assert len(httpx.get(f"{url}/_control/log").json()) == 2
        running.terminate()
