"""Failures of distributed training jobs, made for real and recorded as log folders.

Each row of ``failures.py`` is one job and the truth about it, written before it ran; ``programs/``
holds what the jobs run; ``making.py`` breaks, submits and records them. ``scripts/zoo`` makes all.
"""
