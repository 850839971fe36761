"""What a Slurm cluster tells of itself to an ordinary user on a login node."""

from argosy.schedulers.slurm.survey.surveyor import SlurmSurveyor

__all__ = ["SlurmSurveyor"]
