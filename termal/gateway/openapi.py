"""``GET /api/openapi.json``: the interface described as OpenAPI 3.1, made once, when somebody first asks for it."""

import asyncio
import re
from functools import cache
from typing import Any

from falcon.asgi import Request, Response

import termal
from termal.gateway.openapi_doc import Doc, Parameter, Schema
from termal.gateway.openapi_schemas import make_schemas
from termal.gateway.refusal import JSON, ErrorReply
from termal.gateway.reply import send_json
from termal.gateway.route import KEY_CHARACTERS
from termal.wire.codec import encode_json

_NAMES = re.compile(r"\{(\w+)\}")
_REFUSALS = {
    400: "It can never succeed as it is.",
    403: "A guard says no: a foreign host or origin, or a session that may only read.",
    404: "There is no such thing.",
    409: "The world moved; `reason` says how.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The body does not have the expected form.",
    429: "A limit of things open at once; later.",
    500: "A fault of the daemon or the agent.",
    501: "Well-formed, and not there yet.",
    503: "Proven: nothing was written, or with `original_append_durable` that the first attempt is stored. Repeat it.",
    504: "It may have happened: repeat it with the same key, or read first.",
}
_DONE = {200: "Done.", 201: "Made.", 202: "Accepted and stored."}
_ALWAYS = (400, 403, 413, 500)
_PATH_TEXTS = {
    "session_id": "The id of a session",
    "prompt_id": "The id of a prompt that waits in the queue",
    "message_id": "The id of a message",
}
_REQUEST_ID: Schema = {"description": "The id under which the logs know the request.", "schema": {"type": "string"}}


class OpenApi:
    async def on_get(self, req: Request, resp: Response) -> None:
        await send_json(req, resp, await asyncio.to_thread(document_json))


@cache
def document_json() -> bytes:
    # The rows and their records are imported for the first who asks: a start of the gateway does not wait for them.
    from termal.gateway.openapi_routes import DOCS  # noqa: PLC0415

    return encode_json(make_document(DOCS))


def make_document(docs: dict[tuple[str, str], Doc]) -> dict[str, Any]:
    """The whole document. ``docs`` are the rows by method and path."""
    types = [ErrorReply, *dict.fromkeys(kind for doc in docs.values() for kind in _types(doc))]
    schemas, components = make_schemas(types)
    refs = {str(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), doc in docs.items():
        paths.setdefault(path, {})[method.lower()] = _operation(method, path, doc, docs, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "TermAl",
            "version": termal.__version__,
            "description": "The HTTP interface of the local daemon. Unknown keys of bodies are ignored.",
        },
        "tags": [{"name": name} for name in dict.fromkeys(doc.tag for doc in docs.values())],
        "paths": paths,
        "components": {"schemas": components},
    }


def _types(doc: Doc) -> list[Any]:
    return [kind for kind in (doc.reply, doc.body, *doc.events.values()) if kind is not None]


def _operation(
    method: str, path: str, doc: Doc, docs: dict[tuple[str, str], Doc], refs: dict[str, Schema]
) -> dict[str, Any]:
    operation: dict[str, Any] = {"operationId": doc.operation, "tags": [doc.tag], "summary": doc.summary}
    if doc.description:
        operation["description"] = doc.description
    parameters = [*map(_path_parameter, _NAMES.findall(path)), *map(_query_parameter, doc.query)]
    if doc.keyed:
        parameters.append(_key_parameter())
    if parameters:
        operation["parameters"] = parameters
    if doc.body is not None:
        content: dict[str, Any] = {"schema": refs[str(doc.body)]}
        if doc.example is not None:
            content["example"] = doc.example
        operation["requestBody"] = {"required": doc.body_required, "content": {doc.body_media: content}}
    operation["responses"] = _responses(method, path, doc, docs, refs)
    if doc.events:
        operation["x-events"] = {name: refs[str(kind)] for name, kind in doc.events.items()}
    return operation


def _path_parameter(name: str) -> Schema:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _PATH_TEXTS.get(name, f"The {name.replace('_', ' ')}"),
        "schema": {"type": "string", "minLength": 1},
    }


def _query_parameter(parameter: Parameter) -> Schema:
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.description,
        "schema": parameter.schema,
    }


def _key_parameter() -> Schema:
    return {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A repeat with the same key is answered like the first attempt and does nothing again.",
        "schema": {"type": "string", "pattern": r"^[\x20-\x7e]+$", "minLength": 1, "maxLength": KEY_CHARACTERS},
    }


def _responses(
    method: str, path: str, doc: Doc, docs: dict[tuple[str, str], Doc], refs: dict[str, Schema]
) -> dict[str, Any]:
    schema = {"type": "string"} if doc.reply is None else refs[str(doc.reply)]
    # An operation that is not built yet has no other answer than its refusal.
    success = {doc.status: {**_DONE, **_REFUSALS}[doc.status]}
    error = {JSON: {"schema": refs[str(ErrorReply)]}}
    found: dict[int, dict[str, Any]] = {}
    for status, text in {**success, **doc.also}.items():
        found[status] = {"description": text, "content": {doc.media: {"schema": schema}}}
    links = _links(path, doc, docs)
    if links:
        found[doc.status]["links"] = links
    for status in _statuses(method, path, doc):
        found.setdefault(status, {"description": _REFUSALS[status], "content": error})
    for reply in found.values():
        reply["headers"] = {"X-Request-Id": _REQUEST_ID}
    return {str(status): found[status] for status in sorted(found)}


def _statuses(method: str, path: str, doc: Doc) -> set[int]:
    statuses = {*_ALWAYS, *doc.refusals}
    if _NAMES.search(path):
        statuses.add(404)
    if method != "GET":
        statuses.add(415)
    if doc.body is not None:
        statuses.add(422)
    if doc.asks:
        statuses |= {503, 504}
    return statuses


def _links(path: str, doc: Doc, docs: dict[tuple[str, str], Doc]) -> dict[str, Any]:
    """What can be done with the ids that a reply holds: every operation whose path they and this one's path fill."""
    own = _NAMES.findall(path)
    links: dict[str, Any] = {}
    for (_, other), target in docs.items():
        wanted = _NAMES.findall(other)
        if not set(wanted) & set(doc.gives) or not set(wanted) <= {*doc.gives, *own}:
            continue
        links[target.operation] = {
            "operationId": target.operation,
            "parameters": {
                name: f"$response.body#{doc.gives[name]}" if name in doc.gives else f"$request.path.{name}"
                for name in wanted
            },
        }
    return links
