"""What a job writes down of its GPUs while its program runs."""
