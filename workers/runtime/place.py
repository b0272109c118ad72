"""What an agent's process is started from: the configuration, the daemon's environment and its folders."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from termal.config import Config


class Place(msgspec.Struct, frozen=True):
    """``environ`` is the daemon's own environment, of which a part passes. ``run_dir`` is private to the user.
    ``mark`` is what all processes of this daemon carry.

    ``portable``: use no mechanism that only Linux has.
    """

    config: Config
    environ: Mapping[str, str]
    mark: str
    run_dir: Path
    portable: bool
