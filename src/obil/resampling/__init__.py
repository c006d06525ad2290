"""The same rows at kinder class balances, each knowing the balance that has to be divided out again."""
