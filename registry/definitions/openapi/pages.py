"""The server's own pages in OpenAPI: discovery, /version/ and the OpenID endpoints for token verifiers.

Generators create clients from them, such as CoreApi, RbacAuthorizationApi and VersionApi. As in kube-apiserver, groups
of definitions have none. Follows apiserver pkg/endpoints/discovery and pkg/server/routes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from registry.definitions.openapi.paths import BUILTIN, camel_case, short_group
from registry.definitions.openapi.types import GroupVersion, Json, type_name


@dataclass(frozen=True, slots=True)
class DocumentPage:
    """A path that supports GET. `answer` is the shared type of the response; without one it is a text."""

    path: str
    tag: str
    operation_id: str
    text: str
    answer: str = ""
    media_types: Sequence[str] = BUILTIN.produces

    @property
    def document(self) -> str:
        """The OpenAPI v3 document of the page, by its name in the index."""
        return self.path.strip("/")

    @property
    def consumes(self) -> Sequence[str]:
        return self.media_types if self.answer else ()

    def item(self, prefix: str) -> Json:
        """The path item of the page in v3. References have `prefix` before the type's name."""
        schema: Json = {"$ref": prefix + type_name(self.answer)} if self.answer else {"type": "string"}
        content = {media_type: {"schema": schema} for media_type in self.media_types}
        return {
            "get": {
                "tags": [self.tag],
                "description": self.text,
                "operationId": self.operation_id,
                "responses": {"200": {"description": "OK", "content": content}, "401": {"description": "Unauthorized"}},
            }
        }


def pages(versions: Iterable[GroupVersion]) -> list[DocumentPage]:
    """All pages of a server with built-in kinds in these group versions, by their paths."""
    by_path = {page.path: page for page in _SERVER_PAGES}
    for group, version in versions:
        root = f"/apis/{group}/" if group else "/api/"
        title = camel_case(short_group(group), capital=True)
        tag = camel_case(short_group(group))
        by_path[root] = (
            DocumentPage(root, tag, f"get{title}APIGroup", "get information of a group", "APIGroup")
            if group
            else DocumentPage(root, tag, f"get{title}APIVersions", _VERSIONS, "APIVersions")
        )
        operation_id = f"get{title}{camel_case(version, capital=True)}APIResources"
        path = f"{root}{version}/"
        by_path[path] = DocumentPage(
            path, f"{tag}_{version}", operation_id, "get available resources", "APIResourceList"
        )
    return [by_path[path] for path in sorted(by_path)]


_VERSIONS = "get available API versions"
_SERVER_PAGES = (
    DocumentPage("/apis/", "apis", "getAPIVersions", _VERSIONS, "APIGroupList"),
    DocumentPage(
        "/version/", "version", "getCodeVersion", "get the version of this server", "Info", ("application/json",)
    ),
    DocumentPage(
        "/.well-known/openid-configuration/",
        "WellKnown",
        "getServiceAccountIssuerOpenIDConfiguration",
        "get the OpenID configuration of the issuer of service accounts' tokens",
        media_types=("application/json",),
    ),
    DocumentPage(
        "/openid/v1/jwks/",
        "openid",
        "getServiceAccountIssuerOpenIDKeyset",
        "get the public keys that service accounts' tokens are verified with",
        media_types=("application/jwk-set+json",),
    ),
)
