"""Definitions of real projects, in a folder beside the checkout or in that of REGISTRY_REAL_DEFINITIONS."""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(os.environ.get("REGISTRY_REAL_DEFINITIONS") or Path(__file__).resolve().parents[3] / "shared" / "crds")
