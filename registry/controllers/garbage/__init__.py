"""Garbage collection of dependents, as in kube-controller-manager (pkg/controller/garbagecollector)."""
