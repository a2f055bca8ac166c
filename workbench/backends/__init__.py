"""What turns loops into something that runs; the members are peers and know nothing of each other.

Reading order: ``interpreter`` (plain numpy, the meaning of every loop and the oracle of the
others), then the compiling backends.
"""
