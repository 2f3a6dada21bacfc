"""The SQL reports of a definition: columns, their names, and schema evolution. Pure: no SQL is written here."""
