"""A typed client of the service, on the standard library alone."""
