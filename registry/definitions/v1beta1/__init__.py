"""apiextensions.k8s.io/v1beta1, the older form of definitions; definitions are stored as v1."""
