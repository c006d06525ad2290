"""The HTTP side: requests in, answers out."""
