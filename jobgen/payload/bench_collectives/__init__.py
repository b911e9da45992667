"""Time collectives over all ranks of a job. Runs inside the job; needs PyTorch and nothing else.

Rank 0 writes one JSON value a line: the world, a point for each size, pairs of nodes, the end. A
point's seconds are those of its slowest rank, repetition by repetition. Bytes are counted as
nccl-tests counts them: of the whole array (NVIDIA/nccl-tests, doc/PERFORMANCE.md).
"""
