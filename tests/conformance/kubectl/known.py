"""Keeps the list of known failures of the kubectl transcripts, with a server of its own.

python -m tests.conformance.kubectl.known --update [--allow-new]
"""

from __future__ import annotations

import sys

from tests.conformance.kubectl.harness import KNOWN_FAILURES, replay_transcript, transcript_names
from tests.conformance.results import update_command
from tests.emulating import AS_1_36
from tests.folders import data_folder
from tests.running import running_server

MODULE = "tests.conformance.kubectl.known"

if __name__ == "__main__":
    with data_folder() as folder, running_server(folder / "data", *AS_1_36) as server:
        sys.exit(
            update_command(
                MODULE,
                KNOWN_FAILURES,
                transcript_names(),
                lambda name: replay_transcript(server, name),
                jobs=1,  # Transcripts with fixed group names exclude each other.
                documentation=__doc__ or "",
            )
        )
