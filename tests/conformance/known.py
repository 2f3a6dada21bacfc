"""Keeps the list of known failures, known_failures.txt, with a server of its own.

python -m tests.conformance.known --update               take off what passes now
python -m tests.conformance.known --update --allow-new   also put on what fails now (say why in the commit)
"""

from __future__ import annotations

import sys

from tests.conformance.harness import ARGUMENTS, KNOWN_FAILURES, replay_scenario, scenario_names, why_not_built
from tests.conformance.results import update_command
from tests.folders import data_folder
from tests.running import running_server

MODULE = "tests.conformance.known"

if __name__ == "__main__":
    with data_folder() as folder, running_server(folder / "data", *ARGUMENTS) as server:
        built = [name for name in scenario_names() if why_not_built(name) is None]
        sys.exit(
            update_command(
                MODULE,
                KNOWN_FAILURES,
                built,
                lambda name: replay_scenario(server, name),
                jobs=3,
                documentation=__doc__ or "",
            )
        )
