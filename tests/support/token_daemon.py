"""A daemon that asks for tokens, and its owner's way in."""

from pathlib import Path

import httpx

from termal.tokens import read_owner_token, session_token
from tests.support.daemon import Daemon


class TokenDaemon(Daemon):
    """Looks at its health, and serves clients, with the owner's token."""

    def __init__(self, home: Path, *, environment: dict[str, str] | None = None) -> None:
        super().__init__(home, environment=environment)
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        (home / "config.toml").write_text('auth = "token"\n', "utf-8")

    def client(self, timeout_s: float = 20.0) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=timeout_s, headers=self.bearer())

    @property
    def token(self) -> str:
        token = read_owner_token(self.home.owner_token)
        assert token is not None
        return token

    def bearer(self, session_id: str | None = None) -> dict[str, str]:
        token = self.token if session_id is None else session_token(self.token, session_id)
        return {"Authorization": f"Bearer {token}"}

    def healthy(self) -> bool:
        try:
            body = httpx.get(self.url + "/api/health", timeout=2, headers=self.bearer()).json()
        except (httpx.HTTPError, OSError, ValueError, KeyError, AssertionError):
            return False
        return bool(body.get("state") == "ok")
