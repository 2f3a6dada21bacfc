"""ASGI middlewares, one a file, in the order of apiserver pkg/server/config.go (DefaultBuildHandlerChain)."""
