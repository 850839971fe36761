"""How much longer the slowest of many ranks takes than a rank does on average."""

import numpy as np
from scipy.special import log_ndtr

# Beyond these ends nothing is left of the integrand; the steps are a fifth of its least width.
_NORMAL = np.linspace(-12.0, 20.0, 641)


def slowest_of(ranks: int, spread: float) -> float:
    """Return the expected largest of independent lognormal draws with mean 1, one for each rank.

    `spread` is the standard deviation of the logarithm of a rank's time from step to step, up to 3.
    It is the integral of exp(spread z - spread² / 2) over the density of the largest of normal
    draws, p phi(z) Phi(z)^(p-1) (David and Nagaraja, "Order Statistics", 2003, eq. 2.1.6), by the
    trapezoidal rule, which has converged to rounding for so smooth a function. Raises ValueError
    for less than one rank or a negative spread.
    """
    if ranks < 1 or spread < 0:
        raise ValueError("the slowest is found among 1 rank or more, with a spread of 0 or more")
    if spread == 0:
        return 1.0
    log_phi = -(_NORMAL**2) / 2 - np.log(2 * np.pi) / 2
    log_density = np.log(ranks) + log_phi + (ranks - 1) * log_ndtr(_NORMAL)
    values = np.exp(log_density + spread * _NORMAL - spread**2 / 2)
    return float(values.sum() * (_NORMAL[1] - _NORMAL[0]))
