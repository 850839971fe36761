"""Batches of images from files, read and decoded by processes beside the rank."""

import random

import numpy
import torch
from image_benchmark.image_files import find_images, shares
from PIL import Image, ImageOps


class Images(torch.utils.data.Dataset):
    """Of each image a random square of its shorter side, in the size to train on, perhaps mirrored."""

    def __init__(self, files, size):
        self.files, self.size = files, size

    def __getitem__(self, number):
        """Return pixels from -1 to 1 (3, size, size) and the class; in their place what is wrong."""
        file = self.files[number]
        try:
            with Image.open(file.path) as opened:
                opened.draft("RGB", (self.size, self.size))
                image = ImageOps.fit(
                    opened.convert("RGB"),
                    (self.size, self.size),
                    Image.Resampling.BILINEAR,
                    centering=(random.random(), random.random()),
                )
        except (OSError, ValueError, Image.DecompressionBombError) as problem:
            return f"{file.path} cannot be read as an image: {problem}"
        pixels = numpy.asarray(image if random.random() < 0.5 else ImageOps.mirror(image))
        tensor = torch.from_numpy(pixels.copy()).permute(2, 0, 1).float()
        return tensor / 127.5 - 1, file.label


def collate(images):
    """Return a batch, or the first of what is wrong with its images."""
    problems = [each for each in images if isinstance(each, str)]
    return problems[0] if problems else torch.utils.data.default_collate(images)


def batches(options, image_size, ranks):
    """Yield without end batches of this rank's images, which are on the processor."""
    files = find_images(options.images, options.classes, options.batch_size * ranks.size)
    loader = torch.utils.data.DataLoader(
        Images(files, image_size),
        batch_sampler=shares(len(files), options.batch_size, ranks.rank, ranks.size, options.seed),
        num_workers=options.loaders,
        collate_fn=collate,
        pin_memory=torch.cuda.is_available(),
        # Not every network bears a fork of a process that uses it.
        multiprocessing_context="forkserver",
    )
    for batch in loader:
        if isinstance(batch, str):
            raise SystemExit(f"--images {options.images}: {batch}")
        yield batch
