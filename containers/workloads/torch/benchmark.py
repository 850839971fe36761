"""Measure the training of a published model, by Horovod or DDP, on any number of ranks.

Each rank has a batch of its own, made once, so that nothing is loaded: weak scaling. With `--images` it
reads files instead. All steps are recorded with their phases; the line that such benchmarks print,
`Total img/sec on N …`, is of those after the warm-up.
"""

import itertools
import resource
import sys
from pathlib import Path

import argosy_layers
import argosy_steps
import data_parallel
import torch
from models import IMAGE_SIZES, MODELS
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

sys.path.append(str(Path(__file__).resolve().parents[1]))
from image_benchmark.measuring import rate_line, train
from image_benchmark.options import parser

PRECISIONS = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}


def parse_arguments():
    options = parser(__doc__, MODELS, PRECISIONS)
    options.add_argument("--channels-last", action="store_true")
    return options.parse_args()


def find_device(ranks):
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(ranks.local_rank % torch.cuda.device_count())
    return torch.device("cuda")


def build(options, image_size):
    sized = {"image_size": image_size} if options.model == "vit_small" else {}
    return MODELS[options.model](options.classes, **sized)


def floating_point_operations(options, image_size):
    """Of one sample's forward and backward pass: multiplications and additions, counted, not computed."""
    with torch.device("meta"):
        model = build(options, image_size).eval()
        image = torch.empty(1, 3, image_size, image_size)
        with FlopCounterMode(display=False) as counter:
            model(image).sum().backward()
    return counter.get_total_flops()


class Training:
    """A model on this rank."""

    def __init__(self, options, image_size, ranks, steps):
        self.ranks, self.rank, self.device = ranks, ranks.rank, find_device(ranks)
        self.dtype = PRECISIONS[options.precision]
        model = build(options, image_size).to(self.device)
        self.is_reading = options.images is not None
        # Convolutions follow the images; weights in that layout would have gradients that Horovod refuses.
        self.layout = torch.channels_last if options.channels_last else torch.contiguous_format
        optimizer = torch.optim.SGD(
            model.parameters(), lr=options.learning_rate * ranks.size, momentum=0.9
        )
        self.layers = argosy_layers.LayerTimes(steps, model.named_parameters())
        self.model, self.optimizer = ranks.parallel(model, optimizer)
        # Gradients of half precision are too small for it, unless they are enlarged.
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=options.precision == "fp16")

    def on_device(self, images, labels):
        """Return a batch in the memory and the layout that it is trained in."""
        images = images.to(self.device, non_blocking=True).contiguous(memory_format=self.layout)
        return images, labels.to(self.device, non_blocking=True)

    def step(self, step, batch):
        """Make one step; the loss."""
        if self.is_reading:
            with step.phase("h2d"):
                batch = self.on_device(*batch)
                self.wait()
        images, labels = batch
        with step.phase("forward"):
            with torch.autocast(self.device.type, self.dtype, enabled=self.dtype is not None):
                loss = nn.functional.cross_entropy(self.model(images), labels)
            self.wait()
        with self.ranks.backward(step), self.layers.backward():
            self.scaler.scale(loss).backward()
            self.wait()
        with self.ranks.update(step):
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.optimizer.zero_grad()
            self.wait()
        return loss.item()

    def wait(self):
        """Let the device finish: a phase is over when its work is done, not when it is asked for."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def batches_of(training, options, image_size, steps):
    """Return batches without end: of noise, which is made once, or of files."""
    if options.images is None:
        shape = (options.batch_size, 3, image_size, image_size)
        labels = torch.randint(options.classes, shape[:1])
        return itertools.repeat(training.on_device(torch.randn(shape), labels))
    # Where nothing is read from files, the image needs no library that decodes them.
    import image_batches

    batches = image_batches.batches(options, image_size, training.ranks)
    return steps.loading(batches)


def peak_memory(device):
    """Bytes that this rank has used at most: of the GPU, or without one of the node."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main():
    options = parse_arguments()
    ranks = data_parallel.start()
    steps = argosy_steps.Recorder()
    torch.manual_seed(options.seed + ranks.rank)
    image_size = options.image_size or IMAGE_SIZES.get(options.model, 224)
    try:
        training = Training(options, image_size, ranks, steps)
        batches = batches_of(training, options, image_size, steps)
        seconds = train(training, batches, options, steps)
    except RuntimeError as problem:
        raise SystemExit(does_not_fit(options, problem)) from None
    if ranks.rank == 0:
        name = "GPU" if training.device.type == "cuda" else "CPU"
        line = rate_line(ranks.size * options.batch_size, seconds, f"{ranks.size} {name}")
        print(line, flush=True)
    steps.metric("flops_per_sample", floating_point_operations(options, image_size))
    steps.metric("peak_memory_bytes", peak_memory(training.device))
    ranks.end()


def does_not_fit(options, problem):
    """Return one line on a batch that finds no memory; any other problem is raised again."""
    if isinstance(problem, torch.OutOfMemoryError):
        place = "the GPU's memory"
    elif "DefaultCPUAllocator" in str(problem):
        place = "the memory that this rank may have"
    else:
        raise problem
    said = str(problem).splitlines()[0]
    return f"--batch-size {options.batch_size} does not fit into {place}: {said}"


if __name__ == "__main__":
    main()
