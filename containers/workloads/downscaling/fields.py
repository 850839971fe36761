"""Years of predictors and precipitation, from NetCDF files as ERA5 has them.

A folder holds `predictors-<year>.nc` (variables `PREDICTORS` over time, level, latitude and longitude) and
`precipitation-<year>.nc` (`tp` over time, latitude and longitude), of days. What is wrong with one is said
in one line, and ends the program.
"""

import re
import socket
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

KINDS = ("predictors", "precipitation")
"""Of files, one of each a year."""
PREDICTORS = {"z": "m**2 s**-2", "t": "K", "q": "kg kg**-1", "u": "m s**-1", "v": "m s**-1"}
"""Names and units."""
IN_MM = {"m": 1000.0, "mm": 1.0, "mm day**-1": 1.0, "mm/day": 1.0, "kg m**-2": 1.0}
"""By how much precipitation of a unit is to be multiplied."""
WET = 1.0
"""mm of a day, from which on it counts as wet."""


@dataclass(frozen=True)
class Year:
    """Its days: `predictors` of shape (days, channels, rows, columns), `rain` (days, points) in mm."""

    months: np.ndarray
    predictors: np.ndarray
    rain: np.ndarray


@dataclass(frozen=True)
class Normal:
    """What makes predictors have mean 0 and deviation 1 over the training years, at each point."""

    mean: np.ndarray
    deviation: np.ndarray

    def of(self, predictors):
        return ((predictors - self.mean) / self.deviation).astype(np.float32)


def years_of(folder):
    """Return the years that the folder has, which have to follow each other."""
    names = [path.name for path in Path(folder).glob("predictors-*.nc")]
    years = sorted(
        int(found[1]) for name in names if (found := re.fullmatch(r"predictors-(\d+)\.nc", name))
    )
    if not years:
        raise SystemExit(f"{folder}: contains no predictors-<year>.nc on {socket.gethostname()}")
    missing = sorted({*range(years[0], years[-1] + 1)} - {*years})
    if missing:
        raise SystemExit(f"{folder}: predictors-{missing[0]}.nc is missing between other years")
    return years


def split(years, held_out, rank, size):
    """Return this rank's training years, and the held-out ones, which are the last."""
    training, validation = years[:-held_out], years[-held_out:]
    if not training:
        raise SystemExit(f"{len(years)} years are there and {held_out} are held out: none is left")
    if size > len(training):
        raise SystemExit(
            f"{size} ranks share {len(training)} training years, and each needs one: "
            f"use {len(training)} ranks or fewer, or more years"
        )
    return training[rank::size], validation


def read_years(folder, years):
    """Read some years into one; their grids have to be those of the folder's first year, for all ranks."""
    first = years_of(folder)[0]
    expected = [_grid_of(Path(folder), what, first) for what in KINDS]
    for year in years:
        for what, grid in zip(KINDS, expected, strict=True):
            found = _grid_of(Path(folder), what, year)
            if not all(np.array_equal(a, b) for a, b in zip(found, grid, strict=True)):
                raise SystemExit(
                    f"{folder}/{what}-{year}.nc: its grid differs from the grid of {what}-{first}.nc"
                )
    read = [_read_year(Path(folder), year) for year in years]
    parts = ([getattr(each, name) for each in read] for name in ("months", "predictors", "rain"))
    return Year(*(np.concatenate(each) for each in parts))


def normal_of(predictors, sum_of):
    """Return what normalises all ranks' predictors; `sum_of` adds up an array over the ranks."""
    count = sum_of(np.array([float(len(predictors))]))[0]
    mean = sum_of(predictors.sum(axis=0, dtype=np.float64)) / count
    squares = sum_of(((predictors - mean) ** 2).sum(axis=0, dtype=np.float64))
    return Normal(mean, np.sqrt(squares / count) + 1e-12)


def _read_year(folder, year):
    predictors, rain = (_open(folder / f"{what}-{year}.nc") for what in KINDS)
    with predictors, rain:
        channels = [
            channel
            for name, units in PREDICTORS.items()
            for channel in _levels(folder / f"predictors-{year}.nc", predictors, name, units)
        ]
        amounts = _amounts(folder / f"precipitation-{year}.nc", rain)
        times = [each["time"].values.astype("datetime64[D]") for each in (predictors, rain)]
        if not np.array_equal(*times):
            raise SystemExit(
                f"{folder}/precipitation-{year}.nc: its days differ from the days of predictors-{year}.nc"
            )
        days = np.arange(f"{year}-01-01", f"{year + 1}-01-01", dtype="datetime64[D]")
        if not np.array_equal(times[0], days):
            raise SystemExit(
                f"{folder}/predictors-{year}.nc: {len(times[0])} days, not the {len(days)} of the year"
            )
        months = times[0].astype("datetime64[M]").astype(int) % 12
        stacked = np.stack(channels, axis=1).astype(np.float32)
    return Year(months, stacked, amounts.reshape(len(amounts), -1).astype(np.float32))


def _grid_of(folder, what, year):
    with _open(folder / f"{what}-{year}.nc") as dataset:
        return dataset["latitude"].values, dataset["longitude"].values


def _open(path):
    if not path.is_file():
        raise SystemExit(
            f"{path}: no such file on {socket.gethostname()}; every node has to see all years"
        )
    try:
        return xr.open_dataset(path, engine="netcdf4")
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem).partition("\n")[0]
        raise SystemExit(f"{path}: cannot be read as NetCDF: {why}") from None


def _levels(path, dataset, name, units):
    """Return the field of each level, of shape (days, rows, columns)."""
    if name not in dataset:
        raise SystemExit(
            f"{path}: has no variable {name}; it has {', '.join(map(str, dataset.data_vars))}"
        )
    found = dataset[name]
    if found.attrs.get("units") != units:
        raise SystemExit(
            f"{path}: {name} is in {found.attrs.get('units', 'no unit')}, not in {units}"
        )
    values = found.transpose("time", "level", "latitude", "longitude").values
    _check_numbers(path, name, values)
    return [values[:, level] for level in range(values.shape[1])]


def _amounts(path, dataset):
    if "tp" not in dataset:
        raise SystemExit(
            f"{path}: has no variable tp; it has {', '.join(map(str, dataset.data_vars))}"
        )
    units = dataset["tp"].attrs.get("units")
    if units not in IN_MM:
        raise SystemExit(f"{path}: tp is in {units or 'no unit'}, none of {', '.join(IN_MM)}")
    values = dataset["tp"].transpose("time", "latitude", "longitude").values * IN_MM[units]
    _check_numbers(path, "tp", values)
    return values


def _check_numbers(path, name, values):
    if not np.isfinite(values).all():
        raise SystemExit(f"{path}: {name} contains values that are not numbers")
