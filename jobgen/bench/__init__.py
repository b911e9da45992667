"""Measuring: the job files of all-reduce and scaling, and what they give back. Pure."""
