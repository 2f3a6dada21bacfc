"""What SQL reports show of a definition: its columns, their names, and how they grow. Pure: no SQL is written here."""
