"""Calls of webhooks over HTTPS: addresses judged before they are connected to, bounded in time and size.

Redirects are not followed, proxies of the environment not used. Where to ask twice is safe (conversions change
nothing), a call is made again: once when its connection ended before any answer, for a kept one may just have been
closed; and when a webhook that is busy (429, 5xx) says in `Retry-After` when to come back, as client-go does.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import posixpath
import socket
import ssl
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import httpx

from registry.codec.json_decode import decode_json
from registry.codec.model import DecodeError
from registry.conversion.egress import EgressPolicy
from registry.conversion.errors import CallFailed, NotReached
from registry.conversion.services import Services
from registry.schema.field import go_quote

# kube-apiserver's time for one conversion call; the webhook is told by `?timeout=30s`.
TIMEOUT_SECONDS = 30
# More than any answer to a batch within limits; one that is longer is a fault or an attack.
MAX_ANSWER_BYTES = 64 * 1024 * 1024
# Times that a webhook may ask to come back later; client-go's number.
_MOST_RETRIES = 10
# Connections to one webhook, so that many requests at once do not become a flood.
_CONNECTIONS = 16
# Webhooks that connections are kept to; beyond it the least recently used are closed.
_CLIENTS = 256


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A webhook as a definition names it. `url` is what errors show; `place` is where a service is."""

    url: str
    host: str
    port: int
    path: str
    ca_bundle: str
    service: str = ""
    place: tuple[str, int] | None = None


def endpoint_of(config: Mapping[str, Any], services: Services) -> Endpoint:
    """Of a clientConfig that has been validated."""
    bundle = config.get("caBundle") or ""
    service = config.get("service")
    if service is None:
        url = httpx.URL(config["url"])
        path = _clean(url.raw_path.decode())
        place = config["url"].partition("://")[2].partition("/")[0]
        return Endpoint(f"https://{place}{path}", url.host, url.port or 443, path, bundle)
    name, namespace, port = service["name"], service["namespace"], service.get("port") or 443
    path = _clean(service.get("path") or "")
    host = f"{name}.{namespace}.svc"
    return Endpoint(f"https://{host}:{port}{path}", host, port, path, bundle, name,
                    services.find(name, namespace, port))


def _clean(path: str) -> str:
    """As client-go asks for it: `/a//b/` is `/a/b`, and nothing is `/`."""
    return "/" + posixpath.normpath(f"/{path}").lstrip("/")


class WebhookClient:
    """Calls webhooks. Kept connections belong to one host and CA: a connection is never used for another's name."""

    def __init__(self, policy: EgressPolicy, services: Services, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self.services = services
        self._policy = policy
        self._timeout = timeout
        self._clients: OrderedDict[tuple[str, int, str], httpx.AsyncClient] = OrderedDict()

    async def aclose(self) -> None:
        clients, self._clients = list(self._clients.values()), OrderedDict()
        for client in clients:
            await client.aclose()

    async def post(self, endpoint: Endpoint, body: bytes, *, timeout_seconds: int = 0, again: bool = True) -> bytes:
        """The body of a successful answer; raises CallFailed with the reason as Go's client would tell it.

        `timeout_seconds` is told to the webhook; 0 is the time of a conversion. `again` says that a call may be made
        more than once.
        """
        told = timeout_seconds or TIMEOUT_SECONDS
        where = f'Post "{endpoint.url}?timeout={told}s"'
        try:
            async with asyncio.timeout(timeout_seconds or self._timeout) as limit:
                answer = await self._posted(endpoint, body, told, again)
                for _ in range(_MOST_RETRIES if again else 0):
                    pause = _seconds_to_wait(answer)
                    if pause is None or asyncio.get_running_loop().time() + pause >= (limit.when() or 0):
                        break
                    await asyncio.sleep(pause)
                    answer = await self._posted(endpoint, body, told, again)
        except TimeoutError as error:
            raise CallFailed(f"{where}: context deadline exceeded") from error
        except _Lost as error:
            raise CallFailed(f"{where}: {error}") from error
        except _Unreachable as error:
            raise NotReached(f"{where}: {error}") from error
        if not 200 <= answer.status <= 206:
            raise CallFailed(_refusal(answer))
        if not answer.data:
            raise CallFailed(f"0-length response with status code: {answer.status} and content type: "
                             f"{answer.content_type}")
        return answer.data

    async def _posted(self, endpoint: Endpoint, body: bytes, told: int, again: bool) -> _Answer:
        """From the first of the host's addresses that can be connected to."""
        addresses, port = await self._addresses(endpoint)
        for address in addresses[:-1]:
            try:
                return await self._posted_to(address, port, endpoint, body, told, again)
            except _NotConnected:
                continue
        return await self._posted_to(addresses[-1], port, endpoint, body, told, again)

    async def _posted_to(self, address: str, port: int, endpoint: Endpoint, body: bytes, told: int,
                         again: bool) -> _Answer:
        client = await self._client(endpoint)
        shown = f"[{address}]" if ":" in address else address
        url = httpx.URL(f"https://{shown}:{port}{endpoint.path}", params={"timeout": f"{told}s"})
        host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
        request = client.build_request(
            "POST", url, content=body, extensions={"sni_hostname": endpoint.host},
            headers={"Host": host if endpoint.port == 443 else f"{host}:{endpoint.port}",
                     "Content-Type": "application/json", "Accept": "application/json, */*"})
        for last in (False, True) if again else (True,):
            try:
                return await self._sent(client, request)
            except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
                if last:
                    raise _Lost("EOF") from error
            except httpx.ConnectError as error:
                raise _connect_error(error, address, port) from error
            except httpx.HTTPError as error:
                raise _Lost(str(error) or type(error).__name__) from error
        raise AssertionError("the second try returns or raises")

    async def _sent(self, client: httpx.AsyncClient, request: httpx.Request) -> _Answer:
        response = await client.send(request, stream=True)
        try:
            pieces, size = [], 0
            async for piece in response.aiter_bytes():
                size += len(piece)
                if size > MAX_ANSWER_BYTES:
                    raise _Lost(f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
                pieces.append(piece)
            return _Answer(response.status_code, response.headers.get("content-type", ""),
                           response.headers.get("retry-after", ""), b"".join(pieces))
        finally:
            await response.aclose()

    async def _addresses(self, endpoint: Endpoint) -> tuple[list[str], int]:
        """The addresses to connect to, judged. What the operator has named himself needs no further leave."""
        if endpoint.service:
            if endpoint.place is None:
                raise _Unreachable(f"service {go_quote(endpoint.service)} not found")
            host, port = endpoint.place
        else:
            host, port = endpoint.host, endpoint.port
        named = any(host == place for place, _ in self.services.places.values()) and bool(endpoint.service)
        addresses = [found for found in await _resolved(host, port) if named or self._policy.allows(found)]
        if addresses:
            return addresses, port
        raise _Unreachable(f"dial tcp {host}:{port}: the address is not one that webhooks may be called at "
                           "(setting --allow-egress-to)")

    async def _client(self, endpoint: Endpoint) -> httpx.AsyncClient:
        key = (endpoint.host, endpoint.port, endpoint.ca_bundle)
        client = self._clients.get(key)
        if client is not None:
            self._clients.move_to_end(key)
            return client
        limits = httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS, keepalive_expiry=60)
        client = self._clients[key] = httpx.AsyncClient(
            verify=_context(endpoint.ca_bundle), trust_env=False, follow_redirects=False, timeout=None, limits=limits)
        if len(self._clients) > _CLIENTS:
            # Calls that are under way on it fail as if their connection had been lost, and are made again.
            await self._clients.popitem(last=False)[1].aclose()
        return client


class _Answer(NamedTuple):
    status: int
    content_type: str
    retry_after: str
    data: bytes


class _Unreachable(Exception):
    """The text follows `Post "URL": `."""


class _Lost(_Unreachable):
    """There was a connection, and no answer that is one."""


class _NotConnected(_Unreachable):
    """Nobody is at this address; there may be somebody at another one of the host."""


def _seconds_to_wait(answer: _Answer) -> int | None:
    """How long a webhook that is busy wants to be left alone; None where it does not say."""
    busy = answer.status == 429 or answer.status >= 500
    text = answer.retry_after
    return int(text) if busy and text.isascii() and text.isdigit() and len(text) < 10 else None


def _context(ca_bundle: str) -> ssl.SSLContext:
    """The definition's own roots, or the system's, as Go's client has them.

    Each certificate of the bundle is trusted, an intermediate one or the webhook's own too. Names count where they are
    subject alternative names, not in the subject.
    """
    context = _trusting(ca_bundle)
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    # Newer Pythons set it; CAs that Go makes without key identifiers do not stand up to it.
    context.verify_flags &= ~ssl.VerifyFlags.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    return context


def _trusting(ca_bundle: str) -> ssl.SSLContext:
    if not ca_bundle:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=base64.b64decode(ca_bundle).decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        # A definition's bundle is checked when it is written; that of an admission webhook is not.
        raise CallFailed("unable to load root certificates: unable to parse bytes as PEM block") from error


async def _resolved(host: str, port: int) -> list[str]:
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise _Unreachable(f"dial tcp: lookup {host}: no such host") from error
    return [str(entry[4][0]) for entry in found]


def _connect_error(error: httpx.ConnectError, address: str, port: int) -> _Unreachable:
    cause: BaseException | None = error
    while cause is not None:
        match cause:
            case ssl.SSLCertVerificationError():
                return _Unreachable(f"tls: failed to verify certificate: x509: {_certificate_problem(cause)}")
            case ConnectionRefusedError():
                return _NotConnected(f"dial tcp {_place(address, port)}: connect: connection refused")
            case ssl.SSLError():
                return _Unreachable(f"tls: {cause.reason or cause}")
        cause = cause.__cause__ or cause.__context__
    return _NotConnected(f"dial tcp {_place(address, port)}: connect: {error}")


def _place(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _certificate_problem(error: ssl.SSLCertVerificationError) -> str:
    # OpenSSL's numbers: 10 expired, 62 and 64 another name or address; the rest are chains that end nowhere.
    match error.verify_code:
        case 10:
            return "certificate has expired or is not yet valid"
        case 62 | 64:
            return f"certificate is not valid for this name: {error.verify_message}"
        case _:
            return "certificate signed by unknown authority"


# What Go's client makes of a status code (apimachinery api/errors, NewGenericServerResponse).
_REFUSALS = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}
# As much of a refusal's own text as an error shows.
_SHOWN_BYTES = 2048


def _refusal(answer: _Answer) -> str:
    """A Status tells for itself why; of anything else Go's client shows what is plain text."""
    own = _status_message(answer)
    if own is not None:
        return own
    known = _REFUSALS.get(answer.status)
    if known is not None:
        return known
    text = "unknown"
    if not answer.content_type or answer.content_type.strip().lower().startswith("text/"):
        text = answer.data[:_SHOWN_BYTES].decode("utf-8", "replace").strip()
    if answer.status == 406 and text in ("", "unknown"):
        return "the server was unable to respond with a content type that the client supports"
    if answer.status in (403, 406, 415):
        return text
    if answer.status >= 500:
        return f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
    return f"the server responded with the status code {answer.status} but did not return more information"


def _status_message(answer: _Answer) -> str | None:
    """Of `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": ...}`."""
    try:
        status = decode_json(answer.data).value
    except DecodeError:
        return None
    if not isinstance(status, dict) or (status.get("apiVersion"), status.get("kind")) != ("v1", "Status"):
        return None
    message = status.get("message", "")
    return message if status.get("status") == "Failure" and isinstance(message, str) else None
