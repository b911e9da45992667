"""Which strategy: all of them side by side, the simplest that fits, and what to change if none."""
