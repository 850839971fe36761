"""Present the store as a udocker repository, so that udocker can list and run the frozen images."""
