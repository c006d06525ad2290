"""Read and check request bodies."""
