"""How the console's files are served: to browsers only, before authentication, with a strict CSP."""

from __future__ import annotations

import gzip
import logging
import re
from pathlib import Path

import pytest

from registry.console.app import STATIC
from registry.settings.declarations import Settings, SettingsError
from tests.api.client import Client
from tests.application import serving

BROWSER = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}


async def test_a_browser_is_redirected_from_the_root_and_a_client_is_not(api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path) as client:
        stranger = client.with_token("")
        found = await stranger.get("/", headers=BROWSER)
        assert (found.code, found.header("location"), found.header("vary")) == (302, "/console/", "Accept")
        for accept in ("", "*/*", "application/json", "application/json, */*"):
            assert (await stranger.get("/", accept=accept)).code == 403
            assert "/apis" in (await client.get("/", accept=accept)).ok()["paths"]
        assert (await stranger.get("/console")).header("location") == "/console/"
        for path in ("/clusters/default/console/", "/clusters/default/", "/consoles", "/api/console"):
            assert (await stranger.get(path, headers=BROWSER)).code == 403, path
        assert (await stranger.request("POST", "/", {}, headers=BROWSER)).code == 403


async def test_files_are_served_to_anybody_under_the_policy(api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path, anonymous_auth=False) as client:
        stranger = client.with_token("")
        page = await stranger.get("/console/")
        assert page.code == 200
        assert page.header("content-type") == "text/html; charset=utf-8"
        policy = dict(part.strip().split(" ", 1) for part in page.header("content-security-policy").split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert policy["frame-ancestors"] == policy["form-action"] == policy["base-uri"] == "'none'"
        assert "unsafe" not in page.header("content-security-policy")
        assert page.header("referrer-policy") == "no-referrer"
        assert "<script>" not in page.text
        assert "style=" not in page.text
        for name in ("main.js", "pages/objects.js", "app.css", "vendor/LICENSES.txt", "icon.svg"):
            file = await stranger.get(f"/console/{name}")
            assert file.code == 200
            assert file.body == (STATIC / name).read_bytes()
            assert file.header("content-security-policy") == page.header("content-security-policy")
        assert (await stranger.get("/console/main.js")).header("content-type").startswith("text/javascript")


async def test_a_browser_that_has_a_file_gets_304_and_one_that_reads_gzip_gets_it(
    api_database: str, tmp_path: Path
) -> None:
    async with serving(api_database, tmp_path) as client:
        plain = await client.get("/console/app.css")
        packed = await client.get("/console/app.css", headers={"accept-encoding": "gzip, br"})
        assert packed.header("content-encoding") == "gzip"
        assert gzip.decompress(packed.body) == plain.body
        assert len(packed.body) < len(plain.body) / 2
        assert packed.header("vary") == "Accept-Encoding"
        same = await client.get("/console/app.css", headers={"if-none-match": plain.header("etag")})
        assert (same.code, same.body) == (304, b"")
        assert (await client.get("/console/app.css", headers={"if-none-match": '"other"'})).code == 200
        head = await client.request("HEAD", "/console/app.css")
        assert head.code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/console/../app.py",
        "/console/%2e%2e/app.py",
        "/console/..%2fapp.py",
        "/console//etc/passwd",
        "/console/vendor/",
        "/console/app.py",
        "/console/none.js",
        "/console/main.js/",
        "/console/main.js%00",
        "/console/" + "a/" * 3000 + "a.js",
    ],
    ids=lambda path: str(path)[:40],
)
async def test_no_path_leaves_the_folder(path: str, api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path) as client:
        found = await client.get(path)
        assert found.code == 404, found.text[:200]
        assert "content-security-policy" in found.headers


async def test_only_reads_are_allowed(api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path) as client:
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            found = await client.request(method, "/console/main.js", {})
            assert (found.code, found.header("allow")) == (405, "GET, HEAD")


async def test_without_the_console_nothing_of_it_is_there(api_database: str, tmp_path: Path) -> None:
    async with serving(api_database, tmp_path, console=False) as client:
        assert (await client.get("/console/")).code == 404
        stranger: Client = client.with_token("")
        assert (await stranger.get("/", headers=BROWSER)).code == 403
        assert (await stranger.get("/console/", headers=BROWSER)).code == 403


async def test_what_an_issuer_puts_into_the_query_is_in_no_log(
    api_database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="registry.access"):
        async with serving(api_database, tmp_path, access_log=True) as client:
            await client.get("/console/?code=secret-of-the-issuer&state=1")
    lines = [record for record in caplog.records if record.name == "registry.access"]
    assert any("/console/" in record.getMessage() for record in lines)
    assert not any("secret-of-the-issuer" in str(record.__dict__) for record in lines)


async def test_a_process_whose_console_nobody_opens_has_read_no_file(
    api_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    original = Path.read_bytes

    def noting(self: Path) -> bytes:
        if STATIC in self.parents:
            read.append(self)
        return original(self)

    monkeypatch.setattr(Path, "read_bytes", noting)
    async with serving(api_database, tmp_path) as client:
        (await client.get("/api/v1/namespaces")).ok()
        (await client.get("/")).ok()
        assert read == []
        await client.get("/console/main.js")
        assert [path.name for path in read] == ["main.js"]


def test_an_issuer_for_the_console_needs_issuers(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="needs --authentication-config"):
        Settings(data_dir=tmp_path, console_oidc_client_id="console")


def test_our_code_stays_small() -> None:
    """Some 3,000 lines of modules, styles and page without comments and blank lines; what grows, replaces something."""
    files = [file for file in STATIC.rglob("*") if file.suffix in (".js", ".css", ".html")]
    ours = [file for file in files if "vendor" not in file.parts]
    lines = [line for file in ours for line in file.read_text().splitlines()]
    assert len([line for line in lines if not re.match(r"\s*(//|/?\*|$)", line)]) <= 3050
