"""What a model needs, measured on fake tensors: run by the Python of the training program.

Needs nothing but torch, and allocates no weights. Reads a request, a JSON object, from the file
that its first argument names and writes a report to the file that its second argument names: the
parameters by unit, and the memory of training steps while they run, as torch's MemTracker counts
it.
"""

import sys

# before a module is read that an older Python cannot compile; before `setup`, nodes may have 3.6
if sys.version_info < (3, 9):  # noqa: UP036
    sys.exit("python is {}.{}; torch 2.6 needs 3.9 or later".format(*sys.version_info))
