"""Train a small CNN on real handwritten digits, with Horovod, on any number of ranks.

The data are the 1,797 8x8 images that come with scikit-learn (UCI Optical Recognition of Handwritten
Digits), so nothing is downloaded. The work is fixed and divided among the ranks: strong scaling.
"""

import argparse
import hashlib
import math
import sys

import argosy_layers
import argosy_steps
import horovod.torch as hvd
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

TEST_SHARE = 0.2
SPLIT_SEED = 20


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--checkpoint-every", type=int, default=1, metavar="EPOCHS")
    parser.add_argument("--batch-size", type=int, default=32, help="samples of each rank")
    parser.add_argument("--learning-rate", type=float, default=0.02, help="rate of one rank")
    parser.add_argument("--width", type=int, default=96, help="channels of the first layer")
    parser.add_argument("--warm-up-epochs", type=int, default=3)
    parser.add_argument("--synthetic", action="store_true", help="use the same batch in every step")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def digits():
    """Images as float32 (n, 1, 8, 8) in 0..1 and labels as int64 (n,): training and test set."""
    bunch = load_digits()
    images = torch.tensor(bunch.images / 16.0, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(bunch.target, dtype=torch.int64)
    train, test = train_test_split(
        range(len(labels)), test_size=TEST_SHARE, random_state=SPLIT_SEED, stratify=labels
    )
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def network(width):
    return nn.Sequential(
        nn.Conv2d(1, width, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(2 * width, 2 * width, kernel_size=3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * width, 10),
    )


def learning_rate(options, progress):
    """Rate after `progress` epochs: from one rank's to all ranks' in the warm-up, then a cosine.

    A batch is `size` times as large on `size` ranks, so the rate is as well; the warm-up keeps the
    first steps stable (Goyal et al. 2017, arXiv:1706.02677, section 2.2).
    """
    scaled = options.learning_rate * hvd.size()
    if progress < options.warm_up_epochs:
        share = progress / options.warm_up_epochs
        return options.learning_rate + share * (scaled - options.learning_rate)
    left = (progress - options.warm_up_epochs) / max(1, options.epochs - options.warm_up_epochs)
    return scaled * 0.5 * (1 + math.cos(math.pi * min(1.0, left)))


def train(options, model, optimizer, data, *, steps, first_epoch):
    sampler = DistributedSampler(
        data, num_replicas=hvd.size(), rank=hvd.rank(), seed=options.seed, drop_last=True
    )
    loader = DataLoader(data, batch_size=options.batch_size, sampler=sampler, drop_last=True)
    if options.synthetic:
        loader = [next(iter(loader))] * len(loader)
    layers = argosy_layers.LayerTimes(steps, model.named_parameters())
    for epoch in range(first_epoch, options.epochs):
        sampler.set_epoch(epoch)
        for number, batch in enumerate(steps.loading(loader)):
            rate = learning_rate(options, epoch + number / len(loader))
            for group in optimizer.param_groups:
                group["lr"] = rate
            with steps.step(samples=len(batch[1]), epoch=epoch) as step:
                loss = train_step(model, optimizer, batch, step, layers)
        is_last = epoch + 1 == options.epochs
        is_interrupted = not is_last and on_any_rank(steps.interrupted)
        if hvd.rank() == 0:
            if is_last or is_interrupted or (epoch + 1) % options.checkpoint_every == 0:
                save_checkpoint(model, optimizer, epoch, steps)
            print(
                f"epoch {epoch + 1}/{options.epochs}: loss {loss:.4f}, rate {rate:.4f}", flush=True
            )
        if is_interrupted:
            sys.exit(argosy_steps.INTERRUPTED_EXIT)


def on_any_rank(flag):
    """Whether any rank says so: all ranks get the same answer, at the same place."""
    return hvd.allreduce(torch.tensor(float(flag)), name="flag", op=hvd.Sum).item() > 0


def train_step(model, optimizer, batch, step, layers):
    images, labels = batch
    optimizer.zero_grad()
    with step.phase("forward"):
        loss = nn.functional.cross_entropy(model(images), labels)
    with step.phase("backward"), layers.backward():
        loss.backward()
    # What of the all-reduce the backward pass did not hide.
    with step.phase("communication"):
        optimizer.synchronize()
    with step.phase("update"), optimizer.skip_synchronize():
        optimizer.step()
    return loss.item()


def save_checkpoint(model, optimizer, epoch, steps):
    state = {"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
    with steps.checkpoint() as folder:
        torch.save(state, f"{folder}/state.pt")


def restore(model, optimizer, steps):
    """Load the checkpoint to go on from, if there is one; the epoch to begin with."""
    if not steps.restored:
        return 0
    state = torch.load(f"{steps.restored}/state.pt", weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    if hvd.rank() == 0:
        print(f"continued after epoch {state['epoch'] + 1}", flush=True)
    return state["epoch"] + 1


def accuracy(model, data):
    """Share of the test set that is classified right; every rank computes it from its weights."""
    images, labels = data.tensors
    with torch.no_grad():
        return (model(images).argmax(dim=1) == labels).float().mean().item()


def weights_digest(model):
    """Return a digest of all weights, bit by bit."""
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


def main():
    options = parse_arguments()
    hvd.init()
    steps = argosy_steps.Recorder()
    # Different on purpose: the broadcast below has to make them equal, and the check has to see it.
    torch.manual_seed(options.seed + hvd.rank())
    training, test = digits()
    model = network(options.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=0.9)
    # Of 2 MB in all: to hide several exchanges behind the backward pass costs more than it saves.
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), num_groups=1
    )
    first_epoch = restore(model, optimizer, steps)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    train(options, model, optimizer, training, steps=steps, first_epoch=first_epoch)

    digests = hvd.allgather_object(weights_digest(model))
    identical = len(set(digests)) == 1
    reached = accuracy(model, test)
    steps.metric("test_accuracy", reached)
    steps.metric("weights_identical", identical)
    steps.metric("weights_sha256", digests[hvd.rank()])
    if hvd.rank() == 0:
        print(
            f"test accuracy {reached:.4f}, weights identical on all ranks: {identical}", flush=True
        )
    if not identical:
        raise SystemExit(f"the ranks' weights differ: {digests}")


if __name__ == "__main__":
    main()
