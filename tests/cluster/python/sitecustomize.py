"""What every Python of a job on the test cluster imports first: torch is loaded with less work.

To import torch makes a million objects, none of which is garbage. With Python's own thresholds the
collector takes a quarter of that time, and goes through all of them again when the process ends: as
much once more. DeepSpeed decorates a function with ``torch.compile`` that no test calls, which
loads the whole compiler. A short training is little more than its imports.
"""

import atexit
import gc
import os

gc.set_threshold(100_000, 50, 50)
# registered first, so it runs last; what is frozen is left to the kernel
atexit.register(gc.freeze)
os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
