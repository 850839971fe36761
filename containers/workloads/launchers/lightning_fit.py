"""Lightning, with `launcher: torch`: DistributedDataParallel over all ranks."""

import os
import time

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 3


class Regression(lightning.LightningModule):
    """Learns the sum of its inputs."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))

    def training_step(self, batch, _):
        features, target = batch
        return nn.functional.mse_loss(self.layers(features), target)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.01)


inputs = torch.randn(2048, 16)
loader = DataLoader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), batch_size=32)
# Lightning compares these numbers with those of the launcher.
trainer = lightning.Trainer(
    accelerator="auto",
    strategy="ddp",
    devices=int(os.environ["LOCAL_WORLD_SIZE"]),
    num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
    max_epochs=EPOCHS,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
began = time.perf_counter()
trainer.fit(Regression(), loader)
if trainer.is_global_zero:
    print(f"ranks: {trainer.world_size}")
    print(f"{EPOCHS * len(inputs) / (time.perf_counter() - began):.1f} samples/s", flush=True)
print(f"rank {trainer.global_rank} of {trainer.world_size} has fitted", flush=True)
