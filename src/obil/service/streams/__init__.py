"""The running streams: decisions, group commit, replay, erasure."""
