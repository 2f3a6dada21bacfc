"""Role-based access control: rules, what they allow, what they cover. Pure; authorization/authorizer.py loads them."""
