"""Tenants by host name: with `{tenant}.example.com`, acme.example.com is the tenant acme.

A request that names a tenant by its host cannot name another by its path.
"""

from __future__ import annotations

from registry.store.errors import TenantNotFound


class HostPattern:
    def __init__(self, pattern: str) -> None:
        """`pattern` is "{tenant}" and its suffix, or "" for none."""
        self._suffix = pattern.removeprefix("{tenant}").encode()

    def tenant_of(self, host: bytes, named: str) -> str:
        """Returns the tenant for a Host header and `named`, the name in the path (perhaps ""). Raises TenantNotFound.

        acme.example.com:6443   acme          ACME.example.com   acme
        example.com             what the path names
        """
        if not self._suffix:
            return named
        name = host.lower()
        if not name.startswith(b"["):
            name = name.partition(b":")[0].removesuffix(b".")
        if not name.endswith(self._suffix):
            return named
        tenant = name[: -len(self._suffix)].decode("latin-1")
        if named and named != tenant:
            raise TenantNotFound("the tenant does not exist")
        return tenant or "/"

    def tenant_or_named(self, host: bytes, named: str) -> str:
        """Like `tenant_of`, but if host and path differ, what the path names: the request will be refused."""
        try:
            return self.tenant_of(host, named)
        except TenantNotFound:
            return named


def tenant_in_path(raw_path: bytes, tenant: str) -> str:
    """Returns the tenant in a path as it was sent: a name with escapes is not a tenant's.

    `tenant` is the name in the decoded path; decoded, `/clusters/a%2Fb` would be the tenant a.
    """
    if b"%" not in raw_path:
        return tenant
    segments = raw_path.lstrip(b"/").split(b"/", 2)
    if tenant.startswith("*"):
        # Go clients escape the star of /clusters/*.
        segments[1:2] = [segments[1].replace(b"%2A", b"*").replace(b"%2a", b"*")]
    return tenant if segments[1:2] == [tenant.encode()] else "/"
