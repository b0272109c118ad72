"""Writes scripted answers in the wire format of a model provider, one class per format.

A writer turns parts (text, thinking, tool calls, errors) into the frames of an event stream, or, where the format has
one, into a whole answer. It knows no socket and no script.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from tests.support.scripted_requests import Ask, Format, Json

USAGE = 7
"""The token count that is reported for everything."""


class Writer(Protocol):
    """One answer in one format: frames in the order of the calls, between `begin` and `end`."""

    def begin(self) -> Iterator[str]: ...
    def text(self, chunks: Iterable[str]) -> Iterator[str]: ...
    def thinking(self, chunks: Iterable[str]) -> Iterator[str]: ...
    def tool(self, name: str, arguments: Json, *, freeform: bool) -> Iterator[str]: ...
    def stream_error(self, error: Json) -> Iterator[str]: ...
    def end(self) -> Iterator[str]: ...
    def whole(self, parts: Iterable[tuple[str, object]]) -> Json | None:
        """The answer without a stream, of ("text", text) and ("tool", (name, arguments)); None: streams only."""

    def error_body(self, error: Json) -> Json: ...


def _new_id(prefix: str) -> str:
    return prefix + uuid.uuid4().hex[:12]


class Anthropic:
    """The Messages format."""

    def __init__(self, ask: Ask) -> None:
        self._model = ask.model
        self._id = _new_id("msg_")
        self._block_count = 0
        self._used_tool = False

    def begin(self) -> Iterator[str]:
        yield self._frame("message_start", message=self._message([], None))

    def text(self, chunks: Iterable[str]) -> Iterator[str]:
        yield from self._block({"type": "text", "text": ""}, ({"type": "text_delta", "text": text} for text in chunks))

    def thinking(self, chunks: Iterable[str]) -> Iterator[str]:
        def deltas() -> Iterator[Json]:
            for text in chunks:
                yield {"type": "thinking_delta", "thinking": text}
            yield {"type": "signature_delta", "signature": "c2NyaXB0ZWQ="}

        yield from self._block({"type": "thinking", "thinking": "", "signature": ""}, deltas())

    def tool(self, name: str, arguments: Json, *, freeform: bool) -> Iterator[str]:
        self._used_tool = True
        raw = json.dumps(arguments)
        halves = (raw[: len(raw) // 2], raw[len(raw) // 2 :])
        block = {"type": "tool_use", "id": _new_id("toolu_"), "name": name, "input": {}}
        yield from self._block(block, ({"type": "input_json_delta", "partial_json": half} for half in halves))

    def stream_error(self, error: Json) -> Iterator[str]:
        kind = error.get("type", "overloaded_error")
        yield self._frame("error", error={"type": kind, "message": error.get("message", "scripted")})

    def end(self) -> Iterator[str]:
        delta = {"stop_reason": self._stop_reason, "stop_sequence": None}
        yield self._frame("message_delta", delta=delta, usage={"output_tokens": USAGE})
        yield self._frame("message_stop")

    def whole(self, parts: Iterable[tuple[str, object]]) -> Json | None:
        content: list[Json] = []
        for kind, value in parts:
            if kind == "text":
                content.append({"type": "text", "text": value})
            elif isinstance(value, tuple):
                self._used_tool = True
                content.append({"type": "tool_use", "id": _new_id("toolu_"), "name": value[0], "input": value[1]})
        return self._message(content, self._stop_reason)

    def error_body(self, error: Json) -> Json:
        kind = error.get("type", "api_error")
        return {"type": "error", "error": {"type": kind, "message": error.get("message", "scripted error")}}

    @property
    def _stop_reason(self) -> str:
        return "tool_use" if self._used_tool else "end_turn"

    def _message(self, content: list[Json], stop_reason: str | None) -> Json:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": {"input_tokens": USAGE, "output_tokens": USAGE},
        }

    def _block(self, block: Json, deltas: Iterable[Json]) -> Iterator[str]:
        index = self._block_count
        self._block_count += 1
        yield self._frame("content_block_start", index=index, content_block=block)
        for delta in deltas:
            yield self._frame("content_block_delta", index=index, delta=delta)
        yield self._frame("content_block_stop", index=index)

    def _frame(self, kind: str, **data: object) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


class Responses:
    """The Responses format; streams only."""

    def __init__(self, ask: Ask) -> None:
        self._model = ask.model
        self._id = _new_id("resp_")
        self._items: list[Json] = []

    def begin(self) -> Iterator[str]:
        response = {"id": self._id, "status": "in_progress", "output": []}
        yield self._frame("response.created", response=response)

    def text(self, chunks: Iterable[str]) -> Iterator[str]:
        start = {"type": "message", "id": _new_id("msg_"), "role": "assistant"}
        yield from self._item(
            {**start, "content": []},
            "response.output_text.delta",
            chunks,
            lambda text: {
                **start,
                "status": "completed",
                "content": [{"type": "output_text", "text": text, "annotations": []}],
            },
        )

    def thinking(self, chunks: Iterable[str]) -> Iterator[str]:
        start = {"type": "reasoning", "id": _new_id("rs_")}
        yield from self._item(
            {**start, "summary": []},
            "response.reasoning_summary_text.delta",
            chunks,
            lambda text: {**start, "summary": [{"type": "summary_text", "text": text}], "encrypted_content": None},
        )

    def tool(self, name: str, arguments: Json, *, freeform: bool) -> Iterator[str]:
        call: Json = {"id": _new_id("fc_"), "call_id": _new_id("call_"), "name": name}
        if "/" in name:
            call["namespace"], call["name"] = name.split("/", 1)
        if freeform:
            call.update(type="custom_tool_call", input=arguments["input"])
        else:
            call.update(type="function_call", arguments=json.dumps(arguments))
        yield from self._item(call, "", (), lambda _text: {**call, "status": "completed"})

    def stream_error(self, error: Json) -> Iterator[str]:
        cause = {"code": error.get("type", "server_error"), "message": error.get("message", "scripted")}
        yield self._frame("response.failed", response={"id": self._id, "status": "failed", "error": cause})

    def end(self) -> Iterator[str]:
        usage = {
            "input_tokens": USAGE,
            "output_tokens": USAGE,
            "total_tokens": 2 * USAGE,
            "input_tokens_details": None,
            "output_tokens_details": None,
        }
        response = {"id": self._id, "status": "completed", "model": self._model, "output": self._items, "usage": usage}
        yield self._frame("response.completed", response=response)

    def whole(self, parts: Iterable[tuple[str, object]]) -> Json | None:
        return None

    def error_body(self, error: Json) -> Json:
        return _open_error(error)

    def _item(self, start: Json, kind: str, chunks: Iterable[str], finish: Callable[[str], Json]) -> Iterator[str]:
        index = len(self._items)
        yield self._frame("response.output_item.added", output_index=index, item=start)
        said = ""
        place = {"item_id": start["id"], "output_index": index, "content_index": 0, "summary_index": 0}
        for chunk in chunks:
            said += chunk
            yield self._frame(kind, **place, delta=chunk)
        item = finish(said)
        self._items.append(item)
        yield self._frame("response.output_item.done", output_index=index, item=item)

    def _frame(self, kind: str, **data: object) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


class Chat:
    """The chat completions format; streams only."""

    def __init__(self, ask: Ask) -> None:
        self._model = ask.model
        self._id = _new_id("chatcmpl-")
        self._call_count = 0

    def begin(self) -> Iterator[str]:
        yield self._frame({"role": "assistant", "content": ""})

    def text(self, chunks: Iterable[str]) -> Iterator[str]:
        for chunk in chunks:
            yield self._frame({"content": chunk})

    def thinking(self, chunks: Iterable[str]) -> Iterator[str]:
        for chunk in chunks:
            yield self._frame({"reasoning_content": chunk})

    def tool(self, name: str, arguments: Json, *, freeform: bool) -> Iterator[str]:
        index = self._call_count
        self._call_count += 1
        function = {"name": name, "arguments": ""}
        call = {"index": index, "id": _new_id("call_"), "type": "function", "function": function}
        yield self._frame({"tool_calls": [call]})
        yield self._frame({"tool_calls": [{"index": index, "function": {"arguments": json.dumps(arguments)}}]})

    def stream_error(self, error: Json) -> Iterator[str]:
        cause = {"type": error.get("type", "server_error"), "message": error.get("message", "scripted")}
        yield f"data: {json.dumps({'error': cause})}\n\n"

    def end(self) -> Iterator[str]:
        usage = {"prompt_tokens": USAGE, "completion_tokens": USAGE, "total_tokens": 2 * USAGE}
        yield self._frame({}, "tool_calls" if self._call_count else "stop", usage=usage)
        yield "data: [DONE]\n\n"

    def whole(self, parts: Iterable[tuple[str, object]]) -> Json | None:
        return None

    def error_body(self, error: Json) -> Json:
        return _open_error(error)

    def _frame(self, delta: Json, finish: str | None = None, **extra: object) -> str:
        chunk = {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": self._model,
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            **extra,
        }
        return f"data: {json.dumps(chunk)}\n\n"


class Gemini:
    """The Gemini format."""

    def __init__(self, ask: Ask) -> None:
        self._model = ask.model

    def begin(self) -> Iterator[str]:
        yield from ()

    def text(self, chunks: Iterable[str]) -> Iterator[str]:
        for chunk in chunks:
            yield self._frame([{"text": chunk}])

    def thinking(self, chunks: Iterable[str]) -> Iterator[str]:
        for chunk in chunks:
            yield self._frame([{"text": chunk, "thought": True}])

    def tool(self, name: str, arguments: Json, *, freeform: bool) -> Iterator[str]:
        yield self._frame([{"functionCall": {"id": _new_id("call_"), "name": name, "args": arguments}}])

    def stream_error(self, error: Json) -> Iterator[str]:
        cause = {
            "code": error.get("status", 503),
            "status": error.get("type", "UNAVAILABLE"),
            "message": error.get("message", "scripted"),
        }
        yield f"data: {json.dumps({'error': cause})}\r\n\r\n"

    def end(self) -> Iterator[str]:
        yield self._frame([], "STOP")

    def whole(self, parts: Iterable[tuple[str, object]]) -> Json | None:
        content: list[Json] = []
        for kind, value in parts:
            if kind == "text":
                content.append({"text": value})
            elif isinstance(value, tuple):
                content.append({"functionCall": {"name": value[0], "args": value[1]}})
        return self._chunk(content, "STOP")

    def error_body(self, error: Json) -> Json:
        cause = {
            "code": error.get("status", 500),
            "status": error.get("type", "INTERNAL"),
            "message": error.get("message", "scripted error"),
        }
        return {"error": cause}

    def _chunk(self, parts: list[Json], finish: str | None = None) -> Json:
        candidate: Json = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish is not None:
            candidate["finishReason"] = finish
        usage = {"promptTokenCount": USAGE, "candidatesTokenCount": USAGE, "totalTokenCount": 2 * USAGE}
        return {
            "candidates": [candidate],
            "modelVersion": self._model,
            "responseId": "scripted",
            "usageMetadata": usage,
        }

    def _frame(self, parts: list[Json], finish: str | None = None) -> str:
        return f"data: {json.dumps(self._chunk(parts, finish))}\r\n\r\n"


WRITERS: dict[Format, Callable[[Ask], Writer]] = {
    "anthropic": Anthropic,
    "responses": Responses,
    "chat": Chat,
    "gemini": Gemini,
}


def _open_error(error: Json) -> Json:
    cause = {
        "type": error.get("type", "server_error"),
        "code": error.get("code"),
        "message": error.get("message", "scripted error"),
    }
    return {"error": cause}
