"""The small vision transformer, ViT-S/16: Touvron et al., ICML 2021, arXiv:2012.12877.

It is that of Dosovitskiy et al., ICLR 2021, arXiv:2010.11929, with 6 heads of 64 channels. 22.1 million
parameters.
"""

import torch
from torch import nn

PATCH = 16
CHANNELS = 384
HEADS = 6
BLOCKS = 12


class VisionTransformer(nn.Module):
    """Patches of an image as words of a sentence, with one more word that is classified."""

    def __init__(self, classes, image_size):
        super().__init__()
        self.patches = nn.Conv2d(3, CHANNELS, PATCH, PATCH)
        self.word = nn.Parameter(torch.zeros(1, 1, CHANNELS))
        count = (image_size // PATCH) ** 2
        self.positions = nn.Parameter(0.02 * torch.randn(1, count + 1, CHANNELS))
        self.blocks = nn.Sequential(
            *(
                nn.TransformerEncoderLayer(
                    CHANNELS,
                    HEADS,
                    4 * CHANNELS,
                    dropout=0.0,
                    activation="gelu",
                    batch_first=True,
                    norm_first=True,
                )
                for _ in range(BLOCKS)
            )
        )
        self.last = nn.Sequential(nn.LayerNorm(CHANNELS), nn.Linear(CHANNELS, classes))

    def forward(self, images):
        words = self.patches(images).flatten(2).transpose(1, 2)
        words = torch.cat([self.word.expand(len(words), -1, -1), words], 1) + self.positions
        return self.last(self.blocks(words)[:, 0])


def vit_small(classes=1000, image_size=224):
    return VisionTransformer(classes, image_size)
