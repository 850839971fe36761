"""A program of Lightning's, as one starts it with torchrun."""

import os
import time

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 3


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))

    def training_step(self, batch, _):
        features, target = batch
        return nn.functional.mse_loss(self.layers(features), target)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.01)


inputs = torch.randn(512, 16)
loader = DataLoader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)), batch_size=16)
trainer = lightning.Trainer(
    accelerator="cpu",
    strategy="ddp",
    devices=int(os.environ["LOCAL_WORLD_SIZE"]),
    num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
    max_epochs=EPOCHS,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
began = time.perf_counter()
trainer.fit(Model(), loader)
if trainer.is_global_zero:
    print(f"{EPOCHS * len(inputs) / (time.perf_counter() - began):.1f} samples/s", flush=True)
print(f"rank {trainer.global_rank} of {trainer.world_size} has fitted", flush=True)
