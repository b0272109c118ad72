"""Images of a prompt: which kinds and sizes an agent takes, and the names that a transcript shows."""

from termal.model.message import Attachment
from termal.rules.settings import is_acp
from termal.rules.verdicts import Bad

IMAGE_BYTES = 10 << 20
_EXTENSIONS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}
_FORBIDDEN = str.maketrans({"/": "-", "\\": "-", "\0": "-"})


def check_agent(agent: str, images: int) -> None:
    """Raises `Bad` when ``agent`` takes no images."""
    if images and is_acp(agent):
        raise Bad(f"{agent} takes no attachments")


def attachment(number: int, media_type: str, size_bytes: int, file_name: str | None) -> Attachment:
    """What the transcript shows of the ``number``-th image (from 1). Raises `Bad` for a kind or size we refuse."""
    extension = _EXTENSIONS.get(media_type)
    if extension is None:
        raise Bad(f"an image must be one of {', '.join(_EXTENSIONS)}")
    if size_bytes == 0:
        raise Bad("an image must not be empty")
    if size_bytes > IMAGE_BYTES:
        raise Bad(f"an image must have at most {IMAGE_BYTES} bytes")
    name = (file_name or "").strip().translate(_FORBIDDEN) or f"pasted-image-{number}.{extension}"
    return Attachment(byte_size=size_bytes, file_name=name, media_type=media_type)
