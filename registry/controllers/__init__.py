"""Background controllers, which act as the server itself."""
