"""What an agent's process is started from: the configuration, the daemon's environment and its folders."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from termal.config import Config


class Place(msgspec.Struct, frozen=True):
    """``environ`` is the daemon's own environment, of which a part passes, its mark among it. ``run_dir`` is private
    to the user.

    ``portable``: use no mechanism that only Linux has.
    """

    config: Config
    environ: Mapping[str, str]
    run_dir: Path
    portable: bool
