"""Rows of the interface description for what is done with transcripts: overview, markers, search, export, import."""

from termal.gateway.lines import NDJSON
from termal.gateway.markers import MarkerBody, MarkerPatchBody
from termal.gateway.openapi_doc import SESSION, Doc, number, words
from termal.gateway.search import HITS, LIMIT
from termal.model.marker import MarkerGoneResponse, MarkerResponse, MarkersResponse
from termal.model.overview import OverviewResponse
from termal.model.reply import CreateSessionResponse
from termal.model.search import SearchResponse
from termal.rules.overview_buckets import BUCKETS, MOST_BUCKETS

TRANSCRIPT_DOCS: dict[tuple[str, str], Doc] = {
    ("GET", f"{SESSION}/overview"): Doc(
        operation="readOverview",
        tag="transcripts",
        summary="A transcript of any length in a few buckets",
        query=(number("buckets", "How many buckets at most", 1, MOST_BUCKETS, default=BUCKETS),),
        reply=OverviewResponse,
        refusals=(409,),
    ),
    ("GET", f"{SESSION}/markers"): Doc(
        operation="listMarkers",
        tag="transcripts",
        summary="The markers of a transcript",
        reply=MarkersResponse,
    ),
    ("POST", f"{SESSION}/markers"): Doc(
        operation="createMarker",
        tag="transcripts",
        summary="Mark a message, or the messages up to another one",
        body=MarkerBody,
        reply=MarkerResponse,
        status=201,
        refusals=(409, 501),
        example={"kind": "bug", "name": "Here", "color": "#ff0000", "messageId": "message-1"},
        gives={"marker_id": "/marker/id"},
    ),
    ("PATCH", f"{SESSION}/markers/{{marker_id}}"): Doc(
        operation="changeMarker",
        tag="transcripts",
        summary="Change a marker",
        description="What is left out stays; null clears `body` and `endMessageId`.",
        body=MarkerPatchBody,
        reply=MarkerResponse,
        refusals=(409, 501),
        example={"name": "There"},
    ),
    ("DELETE", f"{SESSION}/markers/{{marker_id}}"): Doc(
        operation="deleteMarker",
        tag="transcripts",
        summary="Delete a marker",
        reply=MarkerGoneResponse,
        refusals=(409, 501),
    ),
    ("GET", "/api/search"): Doc(
        operation="searchMessages",
        tag="transcripts",
        summary="Messages that hold some words, newest first",
        description=(
            'Every term is in a hit: a word, a `"phrase"`, or a beginning (`inde*`). `complete` is false while older '
            "messages are not indexed yet. A query without a word is 400."
        ),
        query=(
            words("q", "What to look for", required=True),
            words("sessionId", "Only in this session"),
            number("limit", "How many hits", 1, LIMIT, default=HITS),
            words("cursor", "The `nextCursor` of the page before"),
        ),
        reply=SearchResponse,
        refusals=(404, 429),
    ),
    ("GET", f"{SESSION}/export"): Doc(
        operation="exportSession",
        tag="transcripts",
        summary="A session with its whole transcript",
        description="A header, each message in a line of its own, and a footer with the checksum of all before it.",
        media=NDJSON,
        refusals=(409, 429),
    ),
    ("POST", "/api/sessions/import"): Doc(
        operation="importSession",
        tag="transcripts",
        summary="Make a new session of an exported one",
        description="The body has no limit, a line of it 16 MiB. Nothing is to be seen before its footer was checked.",
        body=str,
        body_media=NDJSON,
        reply=CreateSessionResponse,
        status=201,
        refusals=(409, 429),
        keyed=True,
        gives={"session_id": "/sessionId"},
    ),
}
