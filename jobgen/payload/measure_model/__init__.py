"""What a model needs, measured on fake tensors: run by the Python of the training program.

Needs nothing but torch, and allocates no weights. Reads a request, a JSON object, from its first
argument and writes a report to the file that its second argument names: the parameters by unit, and
the memory of training steps while they run, as torch's MemTracker counts it.
"""
