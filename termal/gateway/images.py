"""The images of a prompt, from base64 to bytes, with every check that needs no session."""

import asyncio
import base64
import binascii
from collections.abc import Sequence

from termal.gateway.bodies import ImageBody
from termal.wire.errors import InvalidRequest
from termal.wire.session_operations import PromptImage

MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
IMAGE_BYTES = 10 << 20
_LONGEST_BASE64 = (IMAGE_BYTES + 2) // 3 * 4
THREAD_CHARACTERS = 256 << 10
"""Above it decoding would hold up the event loop for more than half a millisecond."""


async def decode_images(bodies: Sequence[ImageBody]) -> list[PromptImage]:
    """Raises `InvalidRequest` for the first image that no prompt can carry."""
    for body in bodies:
        _admit(body)
    if sum(len(body.data) for body in bodies) > THREAD_CHARACTERS:
        return await asyncio.to_thread(_decode_all, bodies)
    return _decode_all(bodies)


def _admit(body: ImageBody) -> None:
    if body.media_type not in MEDIA_TYPES:
        raise InvalidRequest(f"images are of the types {', '.join(MEDIA_TYPES)}", reason="imageType")
    if not body.data:
        raise InvalidRequest("an image has no data", reason="imageEmpty")
    if len(body.data) > _LONGEST_BASE64:
        raise _too_large()


def _decode_all(bodies: Sequence[ImageBody]) -> list[PromptImage]:
    return [PromptImage(_decode(body.data), body.media_type, body.file_name) for body in bodies]


def _decode(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest("the data of an image is not base64", reason="image_base64") from error
    if not data:
        raise InvalidRequest("an image has no data", reason="imageEmpty")
    if len(data) > IMAGE_BYTES:
        raise _too_large()
    return data


def _too_large() -> InvalidRequest:
    return InvalidRequest(f"an image has at most {IMAGE_BYTES >> 20} MiB", reason="imageSize")
