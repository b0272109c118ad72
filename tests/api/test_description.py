"""The interface description against the routes, the records and the refusals that the gateway really has."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import schemathesis

from termal.config import Config
from termal.gateway.app import _routes
from termal.gateway.census import Census
from termal.gateway.context import Gateway
from termal.gateway.openapi import document_json, make_document
from termal.gateway.openapi_doc import Doc
from termal.gateway.openapi_routes import DOCS
from termal.gateway.refusal import BodyTooLarge, MethodNotAllowed, NotJson
from termal.log import Log
from termal.model import delta
from termal.wire import errors
from termal.wire.launch import Launch
from tests.component.gateway_app import App, serve

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
DOCUMENT: dict[str, Any] = json.loads(document_json())
OPERATIONS = [
    pytest.param(operation, id=operation["operationId"])
    for methods in DOCUMENT["paths"].values()
    for operation in methods.values()
]


def routes() -> set[tuple[str, str]]:
    """Every method and path that the application answers."""
    launch = Launch(name="gateway", home="/x", run_dir="/x", control_fd=-1, start="boot", mark="x")
    gateway = Gateway(launch, Config(), Log("test"))
    return {
        (method, path.replace(":segment", ""))
        for path, resource in _routes(gateway, Census(gateway)).items()
        for method in METHODS
        if hasattr(resource, f"on_{method.lower()}")
    }


def test_every_method_of_every_route_is_described_and_nothing_else() -> None:
    assert set(DOCS) == routes()


def test_the_description_is_valid() -> None:
    schemathesis.openapi.from_dict(DOCUMENT).validate()


def test_each_operation_has_a_name_of_its_own() -> None:
    names = [doc.operation for doc in DOCS.values()]
    assert sorted(set(names)) == sorted(names)
    assert all(re.fullmatch(r"[a-z][A-Za-z]+", name) for name in names)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_refusal_has_the_body_of_errors(operation: dict[str, Any]) -> None:
    refusals = {
        status: reply["content"]["application/json"]["schema"]
        for status, reply in operation["responses"].items()
        if int(status) >= 400 and not (operation["operationId"] == "readHealth" and status == "503")
    }
    assert {"400", "403", "413", "500"} <= set(refusals)
    assert all(schema == {"$ref": "#/components/schemas/ErrorReply"} for schema in refusals.values())


def test_every_status_of_the_error_kinds_is_described_somewhere() -> None:
    described = {status for param in OPERATIONS for status in param.values[0]["responses"]}  # type: ignore[index]
    kinds: list[type[errors.TermalError]] = [BodyTooLarge, NotJson]
    kinds += [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TermalError)]
    raised = {str(kind.status) for kind in kinds}
    assert raised <= described
    # No operation answers it: whoever follows the description never meets it.
    assert str(MethodNotAllowed.status) not in described


def test_every_delta_is_described() -> None:
    kinds = [kind for kind in vars(delta).values() if isinstance(kind, type) and issubclass(kind, delta.AnyDelta)]
    leaves = {kind.__name__ for kind in kinds if not kind.__subclasses__()}
    described = DOCUMENT["paths"]["/api/events"]["get"]["x-events"]["delta"]["anyOf"]
    assert {schema["$ref"].rsplit("/", 1)[1] for schema in described} == leaves


@pytest.mark.parametrize(("key", "doc"), [pytest.param(*row, id=row[1].operation) for row in DOCS.items()])
def test_an_example_is_a_body_that_is_accepted(key: tuple[str, str], doc: Doc) -> None:
    assert (doc.example is None) or (doc.body is not None)
    if doc.body is not None and doc.example is not None:
        msgspec.json.decode(msgspec.json.encode(doc.example), type=doc.body)
    if doc.body not in (None, str) and doc.body_required:
        assert doc.example is not None, f"{key} has no example"


def test_a_row_is_all_that_a_new_route_needs() -> None:
    class Found(msgspec.Struct):
        size: int

    rows = {
        **DOCS,
        ("GET", "/api/sessions/{session_id}/found/{found_id}"): Doc(
            operation="readFound", tag="found", summary="Found", reply=Found
        ),
    }
    document = make_document(rows)
    operation = document["paths"]["/api/sessions/{session_id}/found/{found_id}"]["get"]
    assert [parameter["name"] for parameter in operation["parameters"]] == ["session_id", "found_id"]
    assert sorted(operation["responses"]) == ["200", "400", "403", "404", "413", "500", "503", "504"]
    assert document["components"]["schemas"]["Found"]["required"] == ["size"]
    schemathesis.openapi.from_dict(document).validate()


def test_the_ids_of_a_reply_lead_to_what_can_be_done_with_them() -> None:
    links = DOCUMENT["paths"]["/api/sessions"]["post"]["responses"]["201"]["links"]
    assert {"readSession", "readHistory", "sendPrompt", "stopSession", "killSession"} <= set(links)
    assert links["sendPrompt"]["parameters"] == {"session_id": "$response.body#/sessionId"}


def test_the_description_is_served(run_dir: Path) -> None:
    async def scenario(app: App) -> None:
        plain = await app.get("/api/openapi.json")
        assert (plain.status_code, plain.headers["content-type"]) == (200, "application/json")
        assert plain.json == DOCUMENT
        squeezed = await app.get("/api/openapi.json", headers={"Accept-Encoding": "gzip"})
        assert squeezed.headers["content-encoding"] == "gzip"
        assert len(squeezed.content) < len(plain.content) / 4

    serve(run_dir, scenario)
