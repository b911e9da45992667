"""What every Python of a job on the test cluster imports first: its collector starts less often.

To import torch makes a million objects, none of which is garbage. With Python's own thresholds the
collector takes a quarter of that time, and a short training is little more than that import.
"""

import gc

gc.set_threshold(100_000, 50, 50)
