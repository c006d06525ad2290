"""Networks that estimate posteriors: losses whose minimiser is the posterior, and a check of any other."""
