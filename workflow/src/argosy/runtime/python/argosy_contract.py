"""Package alias of the folder `contract` for ranks, whose PYTHONPATH has only this folder."""

import os

__path__ = [os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "contract")]
