"""Garbage collection of dependents, as kube-controller-manager does it (pkg/controller/garbagecollector)."""
