"""A network and its GPUs → the environment that makes NCCL and Gloo use it, each with its why."""
