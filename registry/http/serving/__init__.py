"""The serving process: sockets, TLS, HTTP/1.1 connections and their limits, and the supervisor of several."""
