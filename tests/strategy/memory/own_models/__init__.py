"""Ten models of users' own: each file has ``build_model`` and ``example_batch``."""
