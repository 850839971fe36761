"""Predict training time on unmeasured numbers of nodes, from times of layers and allreduces."""

from argosy.report.topics.prediction.communication import AllreduceTime, fit_communication
from argosy.report.topics.prediction.network import Communication, Level
from argosy.report.topics.prediction.predict import NodeUse, Prediction, Scatter, predict
from argosy.report.topics.prediction.step import (
    Horovod,
    Layer,
    Model,
    model_of_phases,
    split_by,
    split_layers,
)
from argosy.report.topics.prediction.training import (
    Training,
    calibrate,
    model_at,
)

__all__ = [
    "AllreduceTime",
    "Communication",
    "Horovod",
    "Layer",
    "Level",
    "Model",
    "NodeUse",
    "Prediction",
    "Scatter",
    "Training",
    "calibrate",
    "fit_communication",
    "model_at",
    "model_of_phases",
    "predict",
    "split_by",
    "split_layers",
]
