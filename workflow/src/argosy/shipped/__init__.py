"""Files that come with Argosy; `snakefile` is for the Snakefile of a project."""

from argosy.shipped.files import snakefile as snakefile
