"""Maps a webhook's `service` to an address, since there is no cluster that would know.

An operator names services one by one (`hook.default=10.0.0.7:8443`), or gives a template of DNS names
(`{name}.{namespace}.svc.cluster.local`). The certificate must be for NAME.NAMESPACE.svc, as in a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Services:
    """`places` are host and port by `name.namespace`; port 0 means the port that the definition names."""

    places: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    template: str = ""

    def is_named(self, name: str, namespace: str) -> bool:
        """Returns whether the operator has named this very service: its address needs no further permission."""
        return f"{name}.{namespace}" in self.places

    def find(self, name: str, namespace: str, port: int) -> tuple[str, int] | None:
        known = self.places.get(f"{name}.{namespace}")
        if known is not None:
            return known[0], known[1] or port
        if self.template:
            return self.template.replace("{name}", name).replace("{namespace}", namespace), port
        return None


def parse_services(texts: Sequence[str]) -> dict[str, tuple[str, int]]:
    """`["hook.default=10.0.0.7:8443"]` gives `{"hook.default": ("10.0.0.7", 8443)}`; ValueError for another form."""
    places = {}
    for text in texts:
        service, equals, place = text.partition("=")
        host, colon, port = place.rpartition(":")
        if not colon or place.endswith("]"):
            host, port = place, "0"
        if not equals or "." not in service or not host or not port.isdigit() or int(port) > 65535:
            raise ValueError(f'"{text}" is not of the form name.namespace=host:port')
        places[service] = (host.strip("[]"), int(port))
    return places
