"""apiextensions.k8s.io/v1beta1: the older form of definitions; what is stored is v1."""
