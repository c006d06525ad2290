"""Run the same model on Apache Spark: batch and streaming."""
