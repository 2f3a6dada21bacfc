"""The audit log: Kubernetes' audit policy, the recorded parts of a request, and sinks for events."""
