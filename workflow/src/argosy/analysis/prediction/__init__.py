"""Training time on more nodes than were measured, from times of layers and of allreduces."""

from argosy.analysis.prediction.answers import (
    fastest_within,
    largest_surely_with_efficiency,
    largest_with_efficiency,
)
from argosy.analysis.prediction.calibration import Calibration, calibrate
from argosy.analysis.prediction.communication import AllreduceTime, fit_communication
from argosy.analysis.prediction.draws import Scatter
from argosy.analysis.prediction.layers import (
    Layer,
    Model,
    model_of_phases,
    split_by,
    split_layers,
)
from argosy.analysis.prediction.networks import Allreduce, Communication, Level
from argosy.analysis.prediction.overlap import Horovod, Span, Step, simulate
from argosy.analysis.prediction.predict import NodeUse, Prediction, predict
from argosy.analysis.prediction.training import Training, allreduce_at, model_at

__all__ = [
    "Allreduce",
    "AllreduceTime",
    "Calibration",
    "Communication",
    "Horovod",
    "Layer",
    "Level",
    "Model",
    "NodeUse",
    "Prediction",
    "Scatter",
    "Span",
    "Step",
    "Training",
    "allreduce_at",
    "calibrate",
    "fastest_within",
    "fit_communication",
    "largest_surely_with_efficiency",
    "largest_with_efficiency",
    "model_at",
    "model_of_phases",
    "predict",
    "simulate",
    "split_by",
    "split_layers",
]
