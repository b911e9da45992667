"""Measuring: the job specs of all-reduce and scaling, and the tables they give back."""
