"""Pure formulas: posterior, one class against the rest, costs and decisions."""
