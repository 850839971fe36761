"""The models of `benchmark.py`, by the names of their papers: those of containers/workloads/torch in Keras.

Layers are made in the same order as there, with the same padding, so that the weights of one fit the other.
"""

from .alexnet import alexnet
from .googlenet import googlenet
from .inception import inception_v3
from .resnet import resnet50, resnet101
from .transformer import vit_small
from .vgg import vgg16

MODELS = {
    "alexnet": alexnet,
    "googlenet": googlenet,
    "vgg16": vgg16,
    "resnet50": resnet50,
    "resnet101": resnet101,
    "inception_v3": inception_v3,
    "vit_small": vit_small,
}

IMAGE_SIZES = {"inception_v3": 299}
"""Pixels of an image's side as in the paper, where they are not 224."""
