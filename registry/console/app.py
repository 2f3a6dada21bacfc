"""The console's answers: its files, and what a page needs to sign in at an external issuer.

    GET  /console            302 to /console/
    GET  /console/           the page; everything that it shows is in the fragment of its URL, which browsers keep
    GET  /console/<file>     a module, a style sheet, a licence
    GET  /console/api/oidc   how to begin signing in at the issuer: {} where none is configured
    POST /console/api/oidc   an authorization code and its PKCE verifier for an ID token

Files are read, compressed and hashed when they are first requested, then kept. A path of a request names a file only by
plain letters, so it cannot leave the folder.

All of it is public, before any authentication: it shows nothing of tenants.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from registry.console.oidc import OIDC_PATH, SignIn

PREFIX: Final = "/console"
# Scripts and styles are files of this server; pages send requests nowhere else, are not framed, and send no form.
# `data:` images are the marks of faults in the editor. Trusted Types make the browser refuse markup that a script would
# make of text.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class Console:
    """`path` of a request is relative to the server: '/console/app.css'."""

    def __init__(self, sign_in: SignIn) -> None:
        self._assets = Assets()
        self._sign_in = sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._answer(Request(scope, receive), scope["path"].removeprefix(PREFIX))
        answer.headers.update(HEADERS)
        await answer(scope, receive, send)

    async def _answer(self, request: Request, path: str) -> Response:
        if path == OIDC_PATH:
            return await self._sign_in.respond(request)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("405 method not allowed\n", 405, {"Allow": "GET, HEAD"})
        if path == "":
            return RedirectResponse("/console/", 302)
        asset = await self._assets.find(path.removeprefix("/") or INDEX)
        if asset is None:
            return PlainTextResponse("404 page not found\n", 404)
        return file_response(asset, request)


def file_response(asset: Asset, request: Request) -> Response:
    """304 for a browser that has the file. Files are revalidated each time: a new version is seen at once."""
    headers = {"ETag": asset.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(asset.gzipped, media_type=asset.media_type, headers=headers)
    return Response(asset.body, media_type=asset.media_type, headers=headers)


def redirect_to_console() -> Response:
    """For a browser that asks for the server's root."""
    return RedirectResponse("/console/", 302, {"Vary": "Accept", "Cache-Control": "no-cache, private"})


STATIC: Final = Path(__file__).with_name("static")
INDEX: Final = "index.html"
MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image" + "/svg+xml",  # in one piece it would look like a file of image/
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}
# Compressed once for all requests, so the best level is worth its time.
_GZIP_LEVEL: Final = 9
_NAME: Final = re.compile(r"(?:[A-Za-z]+/)*[A-Za-z]+\.(?:html|css|js|svg|txt|json)")


@dataclass(frozen=True, slots=True)
class Asset:
    """`etag` with its quotes; the same for both encodings, which have the same meaning."""

    media_type: str
    etag: str
    body: bytes
    gzipped: bytes


class Assets:
    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._loaded: dict[str, tuple[tuple[int, int], Asset]] = {}
        # A thousand first requests for a file would otherwise compress it a thousand times, on all processors.
        self._loading = asyncio.Lock()

    async def find(self, name: str) -> Asset | None:
        """The file of a path below /console/ ('pages/objects.js'), or None. A changed file is read again."""
        if not _NAME.fullmatch(name):
            return None
        path = self._folder / name
        try:
            stat = path.stat()
        except (OSError, ValueError):
            return None
        stamp = (stat.st_mtime_ns, stat.st_size)
        if (asset := self._current(name, stamp)) is not None:
            return asset
        async with self._loading:
            asset = self._current(name, stamp)
            if asset is None:
                asset = await asyncio.to_thread(_read, path)
                self._loaded[name] = (stamp, asset)
        return asset

    def _current(self, name: str, stamp: tuple[int, int]) -> Asset | None:
        known = self._loaded.get(name)
        return known[1] if known is not None and known[0] == stamp else None


def _read(path: Path) -> Asset:
    body = path.read_bytes()
    etag = f'W/"{hashlib.sha256(body).hexdigest()[:32]}"'
    return Asset(MEDIA_TYPES[path.suffix], etag, body, gzip.compress(body, _GZIP_LEVEL, mtime=0))
