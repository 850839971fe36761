"""What the benchmarks of published models share in PyTorch and TensorFlow."""
