"""Meta-reinforcement learning on procedural content generation.

Six layers, each importing only from those before it:
``games`` → ``envs`` → ``tasks`` → ``learning`` → ``experiments`` → ``grading``.
"""

__version__ = "0.1.0"
