#!/opt/registry/bin/python
"""The health check of the image: exit code 0 if the server that was started in REGISTRY_DATA_DIR is ready.

The server writes its address into the kubeconfig of that folder when it starts.
"""

import os
import ssl
import sys
import urllib.request
from pathlib import Path

import yaml

TIMEOUT_SECONDS = 4


def main() -> int:
    try:
        kubeconfig = yaml.safe_load((Path(os.environ["REGISTRY_DATA_DIR"]) / "kubeconfig").read_text())
        server = kubeconfig["clusters"][0]["cluster"]["server"]
        # The connection stays within the container, and the certificate may be for the names of a load balancer.
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        urllib.request.urlopen(f"{server}/readyz", timeout=TIMEOUT_SECONDS, context=context)
    except (OSError, LookupError, TypeError, yaml.YAMLError) as problem:
        print(f"not ready: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
