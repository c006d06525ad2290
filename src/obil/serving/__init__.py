"""What serving needs: scorers, calibrator maps, column encoding, model files."""
