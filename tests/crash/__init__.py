"""Kill the service under load, again and again, and count what was lost: `make test-crash`."""
