"""Conversion of objects by a definition's webhook, in batches.

kube-apiserver sends one object per review, and some webhooks rely on that. So a failed batch is repeated object by
object: the failing object is then reported in kube-apiserver's words, and if all of them succeed, the webhook is not
sent batches again. A webhook that cannot be reached is not retried for each object.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from registry.caches import LruCache
from registry.codec.json_encode import encode_json
from registry.conversion.errors import ConversionError
from registry.conversion.review import about, accept_converted, converted_objects, request_body
from registry.tasks import gather_all
from registry.webhooks.client import WebhookClient
from registry.webhooks.endpoint import Endpoint, endpoint_of
from registry.webhooks.errors import CallFailed, NotReached

Object = dict[str, Any]

# Objects and bytes of a batch: large enough that calls do not dominate, small enough for a small webhook.
BATCH_OBJECTS = 500
BATCH_BYTES = 4 * 1024 * 1024
# Objects converted concurrently, where they are sent one by one.
_AT_ONCE = 8
_KNOWN_REVIEWS = ("v1", "v1beta1")
# How many webhooks are remembered as unable to convert batches.
_SINGLES = 1024


class Converter:
    """Converts by webhooks. One instance in the process serves all definitions."""

    def __init__(self, client: WebhookClient) -> None:
        self.client = client
        self._singles: LruCache[Endpoint, bool] = LruCache(_SINGLES)

    async def aclose(self) -> None:
        await self.client.aclose()

    async def convert(
        self, tenant: int, conversion: Mapping[str, Any], objects: Sequence[Object], api_version: str
    ) -> list[Object]:
        """Converts `objects`, all of one version, for a tenant. Raises ConversionError; never returns some of them
        unconverted."""
        if not objects:
            return []
        webhook = conversion["webhook"]
        try:
            endpoint = endpoint_of(webhook["clientConfig"], self.client.services)
        except CallFailed as error:
            raise ConversionError(f"{about(objects[0])} failed: {error}") from error
        review_version = next(v for v in webhook["conversionReviewVersions"] if v in _KNOWN_REVIEWS)
        converted: list[Object] = []
        for batch in batches(objects):
            converted += await self._batch(tenant, endpoint, review_version, batch, api_version)
        return converted

    async def _batch(
        self, tenant: int, endpoint: Endpoint, review: str, batch: Sequence[Object], api_version: str
    ) -> list[Object]:
        if len(batch) == 1:
            return await self._call(tenant, endpoint, review, batch, api_version)
        if endpoint not in self._singles:
            try:
                return await self._call(tenant, endpoint, review, batch, api_version)
            except ConversionError as error:
                if isinstance(error.__cause__, NotReached):
                    raise
        objects = await self._one_by_one(tenant, endpoint, review, batch, api_version)
        self._singles.put(endpoint, True)
        return objects

    async def _one_by_one(
        self, tenant: int, endpoint: Endpoint, review: str, objects: Sequence[Object], api_version: str
    ) -> list[Object]:
        """Raises the first failure in the order of the objects."""
        converted: list[Object] = []
        for start in range(0, len(objects), _AT_ONCE):
            calls = [
                self._call(tenant, endpoint, review, [obj], api_version) for obj in objects[start : start + _AT_ONCE]
            ]
            for result in await gather_all(calls):
                converted += result
        return converted

    async def _call(
        self, tenant: int, endpoint: Endpoint, review: str, objects: Sequence[Object], api_version: str
    ) -> list[Object]:
        uid = str(uuid.uuid4())
        try:
            return await self.client.call(
                tenant,
                endpoint,
                request_body(review, uid, api_version, objects),
                lambda data: accept_converted(objects, converted_objects(review, uid, data), api_version),
            )
        except CallFailed as error:
            raise ConversionError(f"{about(objects[0])} failed: {error}") from error


def batches(objects: Sequence[Object]) -> list[list[Object]]:
    """Groups the objects in order, within the bounds of a batch."""
    groups: list[list[Object]] = []
    size = 0
    for obj in objects:
        length = len(encode_json(obj)) if len(objects) > 1 else 0
        if not groups or size + length > BATCH_BYTES or len(groups[-1]) == BATCH_OBJECTS:
            groups.append([])
            size = 0
        groups[-1].append(obj)
        size += length
    return groups
