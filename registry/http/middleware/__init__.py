"""ASGI middlewares, one per file, in the order of apiserver pkg/server/config.go (DefaultBuildHandlerChain)."""
