"""Makes the application of one worker process from its launch. Imported in the worker alone."""

from pathlib import Path

from termal.config import read_config
from termal.gateway.app import make_app
from termal.gateway.context import Gateway
from termal.gateway.door import Door
from termal.home import Home
from termal.log import Log
from termal.wire.launch import Launch


class Served:
    """The application together with what its server has to know of it."""

    def __init__(self, gateway: Gateway, door: Door) -> None:
        self.gateway = gateway
        self.door = door


def load_app(launch: Launch) -> Served:
    """Raises `termal.config.ConfigRefused`."""
    home = Home(Path(launch.home))
    gateway = Gateway(launch, read_config(home.config), Log(launch.name, home.log(launch.name)))
    return Served(gateway, make_app(gateway))
