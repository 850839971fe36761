"""Finds a registry that has an image: a mirror, or where it is by its name."""

from argosy.errors import ArgosyError
from argosy.images.registry.client import Client
from argosy.images.registry.manifests import KINDS
from argosy.images.registry.reference import Reference
from argosy.images.registry.registries_conf import places_of
from argosy.images.registry.retry import Patience


def reach(reference: Reference, patience: Patience, tries: int | None = None) -> Client:
    """Return a client of the first place that answers; a mirror has to have the image as well.

    Why a mirror was passed over is said. The image keeps its own name: its digest is the same everywhere.

    Args:
        tries: of each place; None: as often as for everything else.

    Raises:
        UnreachableError: when nobody answers at the last place.
        ArgosyError: when it cannot be trusted, or the settings of registries forbid or confuse it.
    """
    *mirrors, last = places_of(reference)
    for place in mirrors:
        client = Client(place, patience, named=reference)
        try:
            client.reach(tries=1)
            client.manifest(place.wanted, KINDS)
        except ArgosyError as problem:
            patience.say(f"mirror {place.host}: {problem.problem}")
        else:
            patience.say(f"taking {reference} from the mirror {place.host}")
            return client
    client = Client(last, patience, named=reference)
    client.reach(tries=tries)
    return client
