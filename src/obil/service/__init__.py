"""Serve a model over HTTP: many streams, durable, watchable, safe to expose."""
