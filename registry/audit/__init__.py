"""The audit log: Kubernetes' audit policy, what is kept of a request, and where its events go."""
