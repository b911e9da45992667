"""Which strategy: each beside the others, the simplest that fits, and what to change if none."""
