"""What a stream holds between rows, and the files it is restored from."""
