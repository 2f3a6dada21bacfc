"""Who may do what: attributes of a request, RBAC, impersonation rights, and which tenants a user reaches.

Begin with authorizer.py. Follows kubernetes pkg/registry/rbac and plugin/pkg/auth/authorizer/rbac.
"""
