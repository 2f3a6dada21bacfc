"""Types and static costs of a parsed expression. Follows cel-go checker/ and Kubernetes' library/cost.go."""
