"""Images described in config.yaml by a base image and packages, without a Containerfile.

Argosy writes the Containerfile and copies of its files into `resources/images/<name>/`, and builds it like
any other. No configuration text becomes shell code: Debian package names have no special characters, and
file names are JSON strings.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import quote

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from argosy.study.image_names import LONGEST, REGISTRY, archive_of, image_name, is_taken
from argosy.study.requirements import CONDA, UV_LOCK, Listed, check_path, read_lists
from argosy.validation import NAME, Model
from argosy_common.errors import ArgosyError
from argosy_common.files import write_text

_DIGEST = 8
_MARK = "# Argosy wrote this file by `image` of config.yaml: "
_INSIDE = PurePosixPath("/opt/argosy/python")
_PYTHON = (
    *("env", "PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_ROOT_USER_ACTION=ignore", "PIP_NO_INPUT=1"),
    *("PIP_DISABLE_PIP_VERSION_CHECK=1", "python3"),
)
"""pip may overwrite the distribution's packages: only this program uses the image."""
_PIP = (*_PYTHON, "-m", "pip", "install")
_CONDA_PREFIX = "/opt/argosy/conda"
_CONDA_CACHE = "/var/cache/conda"
_CONDA_INSTALL = "conda_install.py"
_BY_UV = f"""\
RUN python3 -m pip install --target /tmp/uv uv \\
 && /tmp/uv/bin/uv export --quiet --frozen --no-emit-workspace --no-dev --directory {_INSIDE} \\
    --output-file /tmp/requirements.txt \\
 && {" ".join(_PIP)} --requirement /tmp/requirements.txt \\
 && rm -r /tmp/uv /tmp/requirements.txt"""
_SYSTEM = """\
RUN apt-get update \\
 && apt-get install -y --no-install-recommends {} \\
 && rm -rf /var/lib/apt/lists/*"""
_PACKAGE = re.compile("[a-z0-9][a-z0-9+.-]*")
_PACKAGE_SCHEMA = {"type": "string", "pattern": f"^{_PACKAGE.pattern}$"}


def _base(value: str) -> str:
    """Accept a folder of containers/, a registry image or an archive."""
    if archive_of(value) and value.isprintable():
        return value
    if value.startswith(REGISTRY) and value.isprintable() and " " not in value:
        return value
    if is_taken(value) or not NAME.fullmatch(value):
        raise ValueError(
            "write a folder of containers/, an image of Argosy, docker://HOST/NAME:TAG or an archive"
        )
    return value


def _package(value: str) -> str:
    """Accept a Debian package name, which has no character special to a shell."""
    if not _PACKAGE.fullmatch(value):
        raise ValueError("is not the name of a Debian package, such as libgl1")
    return value


class BuiltImage(Model):
    """An image built from another image and packages."""

    base: Annotated[str, Field(alias="from"), AfterValidator(_base)]
    """Image to start from: a folder of containers/, one of Argosy, docker://HOST/NAME:TAG or an archive."""
    python: Annotated[str, AfterValidator(check_path)] | None = None
    """File of the project: requirements (*.txt), pyproject.toml, uv.lock or environment.yml."""
    system: Annotated[
        tuple[Annotated[str, AfterValidator(_package)], ...],
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
        WithJsonSchema({"anyOf": [_PACKAGE_SCHEMA, {"type": "array", "items": _PACKAGE_SCHEMA}]}),
    ] = ()
    """Names of Debian or Ubuntu packages, for an image that has apt-get."""

    @model_validator(mode="after")
    def adds_something(self) -> "BuiltImage":
        """Refuse an image that adds nothing to its base."""
        if not (self.python or self.system):
            raise ValueError(f"add python or system, or write image: {self.base}")
        return self

    @property
    def described(self) -> str:
        """The configuration's mapping as JSON."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True)

    @property
    def name(self) -> str:
        """Folder name in resources/images/; it depends only on the description."""
        digest = hashlib.sha256(self.described.encode()).hexdigest()[:_DIGEST]
        return f"{image_name(self.base)[: LONGEST - _DIGEST - 1]}-{digest}"

    @property
    def folder_of_base(self) -> str | None:
        """Base image's folder in containers/; None for a registry image or an archive."""
        return None if is_taken(self.base) else self.base

    def inputs(self, project: Path) -> list[Path]:
        """Return the project's files that the image needs.

        Raises:
            ArgosyError: if a file is missing, outside the project or cannot be installed.
        """
        archive = archive_of(self.base)
        if archive and not (project / archive).is_file():
            raise ArgosyError(
                f"{archive}: there is no such archive", "correct `from` in config.yaml"
            )
        files = [project / archive] if archive else []
        return [*files, *dict.fromkeys(each.source for each in self._lists(project).values())]

    def write(self, project: Path) -> None:
        """Write the Containerfile, with copies of the image's files; raises ArgosyError as for `inputs`."""
        for path, text in self._texts(project).items():
            write_text(path, text)
            # A build treats another mode as a change, and ARGOSY_UMASK may differ.
            path.chmod(0o600)

    def is_outdated(self, project: Path) -> bool:
        """Return whether `write` would change a file."""
        found = self._texts(project).items()
        return any(
            not path.is_file() or path.read_text(encoding="utf-8") != text for path, text in found
        )

    def _texts(self, project: Path) -> dict[Path, str]:
        lists = self._lists(project)
        texts = {f"python/{name}": each.text for name, each in lists.items()}
        if CONDA in lists:
            program = Path(__file__).with_name(_CONDA_INSTALL)
            texts[f"python/{_CONDA_INSTALL}"] = program.read_text(encoding="utf-8")
        texts["Containerfile"] = self._containerfile(self._from(project), [*lists])
        return {_folder(project, self.name) / name: text for name, text in texts.items()}

    def explain(self, problem: ArgosyError) -> ArgosyError:
        """Add the image's packages and base to a build error."""
        wanted = " and ".join(filter(None, (self.python, ", ".join(self.system))))
        return problem.at(f"image of {wanted} upon {self.base}")

    def _lists(self, project: Path) -> Mapping[str, Listed]:
        return read_lists(project, self.python) if self.python else {}

    def _from(self, project: Path) -> str:
        if archive_of(self.base):
            return f"file://{quote(str((project / self.base).absolute()))}"
        return self.base.removeprefix(REGISTRY) if is_taken(self.base) else f"localhost/{self.base}"

    def _containerfile(self, base: str, lists: Sequence[str]) -> str:
        lines = [
            f"{_MARK}{self.described}",
            "# The next build overwrites it. Copy this folder to containers/ to change it there.",
            f"FROM {base}",
        ]
        if self.system:
            lines.append(_SYSTEM.format(" ".join(self.system)))
        lines += [f"COPY {_words(f'python/{name}', str(_INSIDE / name))}" for name in lists]
        if UV_LOCK in lists:
            lines.append(_BY_UV)
        elif CONDA in lists:
            lines += _conda_steps(lists)
        elif lists:
            lines.append(f"RUN {_words(*_PIP, '--requirement', str(_INSIDE / lists[0]))}")
        return "\n".join((*lines, ""))


def written_image(project: Path, name: str) -> BuiltImage | None:
    """Read the description back from a generated Containerfile; None for any other image."""
    try:
        with (_folder(project, name) / "Containerfile").open(encoding="utf-8") as file:
            line = file.readline()
    except (FileNotFoundError, NotADirectoryError):
        return None
    found = line.startswith(_MARK)
    return BuiltImage.model_validate_json(line.removeprefix(_MARK)) if found else None


def described_files(project: Path) -> list[str]:
    """Return the existing project files that generated Containerfiles use."""
    names = [
        path.parent.name for path in sorted(_folder(project, "x").parent.glob("*/Containerfile"))
    ]
    images = [found for name in names if (found := written_image(project, name))]
    files: dict[Path, None] = {}
    for image in images:
        # The image may belong to an earlier configuration.
        with suppress(ArgosyError):
            files |= dict.fromkeys(each.source for each in image._lists(project).values())
    return [str(path.relative_to(project)) for path in files]


def _conda_steps(lists: Sequence[str]) -> list[str]:
    program = str(_INSIDE / _CONDA_INSTALL)
    listed, *requirements = (str(_INSIDE / name) for name in lists[:2])
    command = _words(*_PYTHON, program, listed, _CONDA_PREFIX, _CONDA_CACHE, *requirements)
    path = f"{_CONDA_PREFIX}/bin:${{PATH:-/usr/local/bin:/usr/bin:/bin}}"
    return [
        f"COPY {_words(f'python/{_CONDA_INSTALL}', program)}",
        f"RUN --mount=type=cache,target={_CONDA_CACHE} {command}",
        f"ENV PATH={path} CONDA_PREFIX={_CONDA_PREFIX}",
    ]


def _folder(project: Path, name: str) -> Path:
    return project / "resources" / "images" / name


def _words(*words: str) -> str:
    return json.dumps(words, ensure_ascii=False)
