"""What goes on in the background, in the name of the server."""
