"""Meta-reinforcement learning on procedural content generation.

Eight layers, each importing only from those before it:
``games`` → ``envs`` → ``tasks`` → ``learning`` → ``personal`` → ``experiments`` → ``grading`` → ``play``.
"""

from metapcg.kernel_cache import drop_stale_kernels, provide_cache_folder

__version__ = "0.1.0"

drop_stale_kernels()
provide_cache_folder()
