"""Serve networks: dense ones by compiled kernels, any other by ONNX Runtime."""
