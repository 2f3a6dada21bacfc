"""Tables as kubectl prints them: printer columns, JSONPath, and the columns of built-in kinds."""
