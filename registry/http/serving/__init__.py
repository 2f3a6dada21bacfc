"""The serving process: sockets, TLS, the HTTP/1.1 connection and its limits, and the supervisor of several."""
