"""`python -m registry.settings` prints the page docs/settings.md."""

from __future__ import annotations

from registry.settings.loading import markdown

print(markdown(), end="")
