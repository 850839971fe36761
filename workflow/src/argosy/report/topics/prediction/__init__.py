"""Training time on more nodes than were measured, from times of layers and of allreduces."""

from argosy.report.topics.prediction.communication import AllreduceTime, fit_communication
from argosy.report.topics.prediction.network import Allreduce, Communication, Level
from argosy.report.topics.prediction.predict import NodeUse, Prediction, Scatter, predict
from argosy.report.topics.prediction.step import (
    Horovod,
    Layer,
    Model,
    Span,
    Step,
    model_of_phases,
    simulate,
    split_by,
    split_layers,
)
from argosy.report.topics.prediction.training import (
    Calibration,
    Training,
    allreduce_at,
    calibrate,
    model_at,
)

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
    "fit_communication",
    "model_at",
    "model_of_phases",
    "predict",
    "simulate",
    "split_by",
    "split_layers",
]
