"""Make weather of a country that does not exist, as files of one year each: `generate.py FOLDER 1981 1990`.

Waves travel east and carry warm, moist air north; where air rises, along fronts, in lows and windward of
mountains, it rains, the more the moister it is. `predictors-<year>.nc` holds fields on a coarse grid with
names, units and levels as ERA5 has them, `precipitation-<year>.nc` the daily sums on a grid twice as fine.
Both are made for trying methods, and no climate is to be read from them.
"""

import argparse
from pathlib import Path

import numpy as np
import xarray as xr

LATITUDES, LONGITUDES = np.arange(52.0, 36.0, -1.0), np.arange(-12.0, 12.0, 1.0)
FACTOR = 2
"""Cells of the fine grid along a side of a coarse one."""
LEVELS = (500, 850)
"""hPa."""
DRIFT = 1.3
"""Cells by which waves travel east in a day."""
MEMORY = 0.65
"""Correlation of the same wave on two days."""
SHAPE = (len(LATITUDES), len(LONGITUDES))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("first", type=int, help="first year")
    parser.add_argument("last", type=int, help="last year")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


class Waves:
    """A random field of a length scale in cells, of mean 0 and deviation 1, that changes day by day."""

    def __init__(self, scale, chance):
        self.chance = chance
        rows, columns = np.meshgrid(*(np.fft.fftfreq(n) for n in SHAPE), indexing="ij")
        self.power = np.exp(-((np.pi * scale) ** 2) * (rows**2 + columns**2))
        self.power /= np.sqrt(np.mean(self.power**2))
        self.travel = np.exp(-2j * np.pi * columns * DRIFT)
        self.waves = self.noise()

    def noise(self):
        return np.fft.fft2(self.chance.standard_normal(SHAPE)) * self.power

    def today(self):
        """Return the field of another day."""
        fresh = np.sqrt(1 - MEMORY**2) * self.noise()
        self.waves = MEMORY * self.travel * self.waves + fresh
        return np.fft.ifft2(self.waves).real


def mountains():
    """Heights in km: a ridge across the country and a massif in its east."""
    rows, columns = np.meshgrid(*(np.arange(n) for n in SHAPE), indexing="ij")
    ridge = np.exp(-(((rows - 9 - 0.15 * columns) / 1.6) ** 2))
    massif = np.exp(-(((rows - 4) / 2.5) ** 2) - ((columns - 17) / 3.0) ** 2)
    return 1.8 * ridge + 1.4 * massif


def weather(year, seed):
    """Return days of a year, fields by name and level, and rain in mm, all on the fine grid."""
    chance = np.random.default_rng([seed, year])
    days = np.arange(f"{year}-01-01", f"{year + 1}-01-01", dtype="datetime64[D]")
    streams, moisture, detail = (Waves(scale, chance) for scale in (5.0, 3.0, 1.2))
    height, north = mountains(), np.linspace(1.0, -1.0, SHAPE[0])[:, None]
    slope_south, slope_east = np.gradient(height)
    found = []
    for day in range(len(days)):
        season = np.cos(2 * np.pi * (day - 15) / 365.25)  # 1 in January
        stream = (1.0 + 0.3 * season) * streams.today()
        d_south, d_east = np.gradient(stream)
        u, v = 8.0 + 4.0 * season + 9.0 * d_south, 9.0 * d_east
        t = 285.0 - 9.0 * season - 5.0 * north + 0.5 * v + 1.5 * stream
        humidity = np.clip(0.62 + 0.16 * moisture.today() - 0.10 * stream, 0.05, 1.0)
        q = 0.0075 * humidity * np.exp(0.065 * (t - 285.0))
        lift = -0.30 * stream + 0.10 * (u * slope_east - v * slope_south)
        lift += 0.25 * np.hypot(*np.gradient(t)) - 0.35
        rising = lift + 3.2 * (humidity - 0.62) + 0.35 * detail.today()
        amount = chance.gamma(1.6, 1 / 1.6, SHAPE) * (q / 0.006)
        rain = np.where(rising > 0.25, 9.0 * np.abs(rising - 0.25) ** 1.25 * amount, 0.0)
        found.append(
            {
                "z": (54000 - 1500 * season + 900 * stream, 14300 - 300 * season + 500 * stream),
                "t": (t - 33.0 - 0.4 * stream, t),
                "q": (0.25 * q, q),
                "u": (1.6 * u, u),
                "v": (1.6 * v, v),
                "tp": rain,
            }
        )
    names = ("z", "t", "q", "u", "v")
    fields = {name: np.array([each[name] for each in found], np.float32) for name in names}
    return days, fields, np.array([each["tp"] for each in found], np.float32)


def coarse(fields):
    """Return means over the cells of a coarse one; the last two axes are the grid."""
    rows, columns = (length // FACTOR for length in SHAPE)
    parts = fields.reshape(*fields.shape[:-2], rows, FACTOR, columns, FACTOR)
    return parts.mean(axis=(-3, -1))


UNITS = {"z": "m**2 s**-2", "t": "K", "q": "kg kg**-1", "u": "m s**-1", "v": "m s**-1"}


def write(folder, year, seed):
    days, fields, rain = weather(year, seed)
    axes = ("time", "level", "latitude", "longitude")
    means = [line.reshape(-1, FACTOR).mean(axis=1) for line in (LATITUDES, LONGITUDES)]
    grid = {"time": days.astype("datetime64[ns]"), "level": np.array(LEVELS)}
    predictors = xr.Dataset(
        {name: (axes, coarse(field), {"units": UNITS[name]}) for name, field in fields.items()},
        {**grid, "latitude": means[0], "longitude": means[1]},
    )
    fine = {"time": grid["time"], "latitude": LATITUDES, "longitude": LONGITUDES}
    axes = ("time", "latitude", "longitude")
    # ERA5 gives precipitation in metres of water.
    precipitation = xr.Dataset({"tp": (axes, rain / 1000, {"units": "m"})}, fine)
    for name, dataset in (("predictors", predictors), ("precipitation", precipitation)):
        path = folder / f"{name}-{year}.nc"
        unfinished = path.with_suffix(".part")
        dataset.to_netcdf(unfinished)
        unfinished.rename(path)


def main():
    options = parse_arguments()
    options.folder.mkdir(parents=True, exist_ok=True)
    for year in range(options.first, options.last + 1):
        write(options.folder, year, options.seed)
        print(f"{year} is written to {options.folder}", flush=True)


if __name__ == "__main__":
    main()
