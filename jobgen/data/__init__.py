"""Facts as tables, and the one reader of them."""
