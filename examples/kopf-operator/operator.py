"""An operator for CronTabs (examples/crontab), with kopf (`pip install kopf`).

    KUBECONFIG=<data-dir>/kubeconfig kopf run --all-namespaces examples/kopf-operator/operator.py

It answers every change of a spec with a status: how many run, which generation that is, since when. Before a CronTab
goes it is given the chance to clean up: kopf holds the object by a finalizer until `clean_up` has returned.
"""

from __future__ import annotations

import datetime
from typing import Any

import kopf

GROUP, PLURAL = "jobs.example.com", "crontabs"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    # What kopf remembers of an object is kept in annotations; the status is for people.
    settings.persistence.finalizer = f"{GROUP}/kopf-operator"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=f"kopf.{GROUP}")
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=f"kopf.{GROUP}")


@kopf.on.resume(GROUP, PLURAL)
@kopf.on.create(GROUP, PLURAL)
@kopf.on.update(GROUP, PLURAL, field="spec")
def reconcile(spec: kopf.Spec, meta: kopf.Meta, patch: kopf.Patch, logger: kopf.Logger, **_: Any) -> None:
    """Makes what the spec wants. Here nothing is run; only the status tells that it was."""
    replicas = 0 if spec["suspend"] else spec["replicas"]
    patch.status.update(
        {
            "phase": "Ready",
            "replicas": replicas,
            "selector": f"crontab={meta['name']}",
            "observedGeneration": meta["generation"],
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "Reconciled",
                    "message": f"{replicas} of {spec['image']} at {spec['schedule']}",
                    "lastTransitionTime": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                }
            ],
        }
    )
    logger.info("%s runs %d", meta["name"], replicas)


@kopf.on.delete(GROUP, PLURAL)
def clean_up(meta: kopf.Meta, logger: kopf.Logger, **_: Any) -> None:
    logger.info("%s is cleaned up", meta["name"])
