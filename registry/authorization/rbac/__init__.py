"""Role-based access control: rules, matching and coverage. Pure; authorization/authorizer.py loads the objects."""
