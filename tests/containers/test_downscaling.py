"""Downscaling of precipitation: generated weather, scores, both frameworks, and unusable data."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from image_programs import root_of, run_python

from argosy_images.engines.models import Bind
from argosy_images.store.store import Store

# The first of them builds an image with TensorFlow and Horovod.
pytestmark = [
    pytest.mark.thorough,
    pytest.mark.container,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
]

FRAMEWORKS = ("torch", "tensorflow")
PROGRAMS = Path(__file__).parent / "programs"

Run = Callable[..., tuple[int | None, str]]


@pytest.fixture(scope="module")
def roots(project_store: Store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the frozen images by framework."""
    folder = tmp_path_factory.mktemp("images")
    return {each: root_of(project_store, f"downscaling-{each}", folder) for each in FRAMEWORKS}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that containers mount at /data."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def python(project_store: Store, roots: dict[str, Path], data: Path) -> Run:
    """Return a function that runs Python in a framework's image and returns status and output."""

    def run(framework: str, *arguments: str) -> tuple[int | None, str]:
        binds = (Bind(PROGRAMS, "/job"), Bind(data, "/data", writable=True))
        outcome, said = run_python(project_store, roots[framework], arguments, *binds)
        return outcome.status, said

    return run


@pytest.fixture(scope="module")
def weather(python: Run, data: Path) -> Path:
    """Generate eight years of weather."""
    status, said = python("torch", "/workloads/downscaling/generate.py", "weather", "1981", "1988")
    assert status == 0, said
    return data / "weather"


@pytest.fixture(scope="module")
def baselines(python: Run, weather: Path) -> dict[str, dict[str, float]]:
    status, said = python("torch", "/workloads/downscaling/baselines.py", "weather")
    assert status == 0, said
    found: dict[str, dict[str, float]] = json.loads(said)
    return found


def last_scores(said: str) -> dict[str, float]:
    """Parse the scores of a training's last epoch."""
    line = said.splitlines()[-1].partition("loss ")[2]
    pairs = (each.split(" ") for each in line.split(", ")[1:])
    return {name: float(value) for name, value in pairs}


def test_the_weather_is_plausible(python: Run, weather: Path) -> None:
    look = "\n".join(
        (
            "import sys; sys.path.insert(0, '/workloads/downscaling')",
            "import json, numpy as np",
            "from fields import read_years",
            "year = read_years('weather', [1981, 1982, 1983])",
            "rain, t = year.rain, year.predictors[:, 3].mean(axis=(1, 2))",
            "wet, warmer = rain >= 1, t[year.months == 6].mean() - t[year.months == 0].mean()",
            "found = wet.mean(), rain.mean(), np.percentile(rain, 98), wet.mean(axis=0).std(), warmer",
            "print(json.dumps([float(each) for each in found]))",
        )
    )
    status, said = python("torch", "-c", look)
    assert status == 0, said
    wet, mean, p98, between_points, summer = json.loads(said)
    # Many dry days, mm a day as in southern Europe, mountains, and summers warmer than winters.
    assert 0.1 < wet < 0.5
    assert 0.5 < mean < 5
    assert 8 < p98 < 50
    assert between_points > 0.02
    assert 10 < summer < 30


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_network_is_better_than_climatology_and_regression(
    python: Run, weather: Path, baselines: dict[str, dict[str, float]], framework: str
) -> None:
    program = f"/workloads/downscaling/{framework}_training.py"
    status, said = python(framework, program, "--data", "weather", "--epochs", "14", "--seed", "1")
    assert status == 0, said
    found = last_scores(said)
    for other in baselines.values():
        assert found["roc_area"] > other["roc_area"]
        assert found["rmse_mm"] < other["rmse_mm"]
        assert found["correlation"] > other["correlation"]
    assert abs(found["bias_p98"]) < abs(baselines["regression"]["bias_p98"])


def test_the_frameworks_agree_on_loss_and_gradients(python: Run) -> None:
    status, said = python("torch", "/job/downscaling_gradients.py", "torch", "/data/step.npz")
    assert status == 0, said
    program = ("/job/downscaling_gradients.py", "tensorflow", "/data/step.npz")
    status, said = python("tensorflow", *program)
    assert status == 0, said
    found = json.loads(said.splitlines()[-1])
    assert found["loss"] < 1e-4
    assert len(found["gradients"]) == 8
    assert max(found["gradients"]) < 1e-4


CHANGES = {
    "one['q'].attrs['units'] = 'g kg**-1'": "predictors-1983.nc: q is in g kg**-1, not in kg kg**-1",
    "del one['q'].attrs['units']": "predictors-1983.nc: q is in no unit, not in kg kg**-1",
    "one = one.drop_vars('q')": "predictors-1983.nc: has no variable q; it has z, t, u, v",
    "one = one.assign_coords(latitude=one.latitude + 0.25)": (
        "predictors-1983.nc: its grid differs from the grid of predictors-1981.nc"
    ),
    "one = one.isel(time=slice(0, 300))": (
        "precipitation-1983.nc: its days differ from the days of predictors-1983.nc"
    ),
    "one['t'][5, 0, 0, 0] = float('nan')": "predictors-1983.nc: t contains values that are not numbers",
    "(folder / 'precipitation-1982.nc').unlink()": "precipitation-1982.nc: no such file on ",
    "(folder / 'predictors-1984.nc').unlink()": (
        "predictors-1984.nc is missing between other years"
    ),
}
"""Changes of predictors-1983.nc (`one`) or its folder, and the expected errors."""
READ_CHANGED = """
import json, pathlib, shutil, sys, xarray
sys.path.insert(0, '/workloads/downscaling')
from fields import read_years, years_of
for number, change in enumerate(json.loads(sys.argv[1])):
    folder = pathlib.Path(f'changed-{number}')
    shutil.copytree('weather', folder)
    path = folder / 'predictors-1983.nc'
    names = {'one': xarray.load_dataset(path), 'folder': folder}
    exec(change, names)
    path.unlink()
    names['one'].to_netcdf(path)
    try:
        read_years(folder, years_of(folder))
    except SystemExit as problem:
        print(problem)
"""


def test_data_that_are_not_as_they_have_to_be_are_named(python: Run, weather: Path) -> None:
    status, said = python("torch", "-c", READ_CHANGED, json.dumps([*CHANGES]))
    assert status == 0, said
    for line, problem in zip(said.splitlines(), CHANGES.values(), strict=True):
        assert line.startswith("changed-") and problem in line


def test_a_grid_is_compared_also_where_its_year_is_alone(python: Run, weather: Path) -> None:
    """A rank may have only one training year."""
    script = (
        "import shutil, xarray\n"
        "import sys; sys.path.insert(0, '/workloads/downscaling')\n"
        "from fields import read_years\n"
        "shutil.copytree('weather', 'alone')\n"
        "one = xarray.load_dataset('alone/precipitation-1984.nc')\n"
        "one.assign_coords(longitude=one.longitude + 1).to_netcdf('alone/new.nc')\n"
        "shutil.move('alone/new.nc', 'alone/precipitation-1984.nc')\n"
        "read_years('alone', [1984])\n"
    )
    status, said = python("torch", "-c", script)
    assert status == 1, said
    assert "precipitation-1984.nc: its grid differs from the grid of precipitation-1981.nc" in said


def refused(python: Run, folder: str, problem: str, *more: str) -> None:
    """Check that a training fails with this one-line message."""
    program = "/workloads/downscaling/torch_training.py"
    status, said = python("torch", program, "--data", folder, "--epochs", "1", *more)
    assert status == 1, said
    assert problem in said
    assert len(said.splitlines()) == 1, said


def test_a_training_without_its_data_is_refused(python: Run, weather: Path, data: Path) -> None:
    (data / "empty").mkdir()
    shutil.copytree(weather, data / "broken")
    (data / "broken/predictors-1985.nc").write_bytes(b"no data")
    refused(python, "broken", "broken/predictors-1985.nc: cannot be read as NetCDF")
    refused(python, "empty", "empty: contains no predictors-<year>.nc on ")
    refused(python, "weather", "8 years are there and 8 are held out: none", "--held-out", "8")
    refused(python, "weather", "the loss is nan; lower --learning-rate", "--learning-rate", "1e30")
