"""Pure formulas: ratio and posterior, costs and decisions, error bounds, regret."""
