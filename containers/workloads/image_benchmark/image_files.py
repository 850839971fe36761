"""Images in a folder as ImageNet has it: a folder for each class."""

import itertools
import os
import random
from dataclasses import dataclass

SUFFIXES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class ImageFile:
    """An image and the number of its class."""

    path: str
    label: int


def find_images(folder, classes, least):
    """Return the images of `folder`, in the same order on each rank; classes are numbered by name.

    Args:
        folder: of the folders of the classes.
        classes: the most there may be.
        least: images that are needed, a batch of each rank.
    """
    try:
        names = sorted(each.name for each in os.scandir(folder) if each.is_dir())
        images = [
            ImageFile(os.path.join(folder, name, file), label)
            for label, name in enumerate(names)
            for file in sorted(os.listdir(os.path.join(folder, name)))
            if file.lower().endswith(SUFFIXES)
        ]
    except OSError as problem:
        raise SystemExit(f"--images {folder}: {problem.filename}: {problem.strerror}") from None
    if len(names) > classes:
        raise SystemExit(f"--images {folder} has {len(names)} classes, and --classes is {classes}")
    if len(images) < least:
        raise SystemExit(
            f"--images {folder} has {len(images)} images ({', '.join(SUFFIXES)} in folders of "
            f"classes), and one batch of all ranks takes {least}"
        )
    return images


def shares(count, batch_size, rank, size, seed):
    """Yield without end the numbers of the images of this rank's batches.

    Each epoch has an order of its own, the same on all ranks, of which they take turns; what fills no
    batch is left out.
    """
    for epoch in itertools.count():
        order = list(range(count))
        random.Random(f"{seed} {epoch}").shuffle(order)
        own = order[rank : count - count % size : size]
        for place in range(0, len(own) - batch_size + 1, batch_size):
            yield own[place : place + batch_size]
