"""The folder `contract` as a package of the ranks, which have this folder alone in PYTHONPATH."""

import os

__path__ = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "contract")]
