"""What each server reads as it starts, read already by the process that servers of tests are forked from."""

from __future__ import annotations

from registry.authorization.rbac.defaults import default_entries
from registry.builtin import definitions

definitions()
default_entries()
