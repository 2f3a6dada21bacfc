"""Authorization: request attributes, RBAC, impersonation rights, and the tenants that a user can access.

Begin with authorizer.py. Follows kubernetes pkg/registry/rbac and plugin/pkg/auth/authorizer/rbac.
"""
