"""Role-based access control: rules, what they allow, what they cover. Pure; access/policies.py does the I/O."""
