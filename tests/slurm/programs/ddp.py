"""A program for torchrun that knows nothing of Argosy."""

import argparse
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
options = parser.parse_args()

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
inputs = torch.randn(512, 16, generator=torch.Generator().manual_seed(1))
data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=16, sampler=sampler)
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
for epoch in range(options.epochs):
    sampler.set_epoch(epoch)
    began = time.perf_counter()
    for features, target in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(features), target)
        loss.backward()
        optimizer.step()
    if rank == 0:
        rate = len(data) / (time.perf_counter() - began)
        print(f"epoch {epoch}: loss {loss.item():.4f}, {rate:.1f} samples/s", flush=True)
weights = [torch.cat([one.detach().flatten() for one in model.parameters()])] * size
gathered = [torch.empty_like(weights[0]) for _ in range(size)]
dist.all_gather(gathered, weights[0])
assert all(torch.equal(one, weights[0]) for one in gathered)
print(f"rank {rank} of {size}: all weights are equal", flush=True)
dist.destroy_process_group()
