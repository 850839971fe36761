"""A Containerfile as a file: its text, and errors that name a line of it."""

from dataclasses import dataclass
from pathlib import Path

from argosy.errors import ArgosyError


@dataclass(frozen=True)
class Source:
    """The file, and the folder whose files it may copy."""

    path: Path

    @property
    def context(self) -> Path:
        """The folder of the image."""
        return self.path.parent

    def error(self, line: int, message: str, hint: str = "") -> ArgosyError:
        """Return an error that names file and line."""
        return ArgosyError(f"{self.path}:{line}: {message}", hint)

    def read(self) -> str:
        """Return the text.

        Raises:
            ArgosyError: when there is no such file, or it is not text.
        """
        try:
            # Ends of lines stay as they are: a here-document keeps them.
            return self.path.read_bytes().decode("utf-8-sig")
        except FileNotFoundError:
            raise ArgosyError(
                f"{self.path}: there is no Containerfile", "make one, or mend the image's name"
            ) from None
        except UnicodeDecodeError as problem:
            raise ArgosyError(f"{self.path}: not UTF-8 text: {problem.reason}") from None
        except OSError as problem:
            raise ArgosyError(f"{self.path}: {problem.strerror}") from None
