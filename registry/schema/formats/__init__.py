"""The formats of strings that Kubernetes enforces (kube-openapi pkg/validation/strfmt)."""
