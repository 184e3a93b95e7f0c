"""A program for PyTorch's own launcher: the ranks sum their numbers over Gloo."""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
numbers = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(numbers)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {numbers.item():g}", flush=True)
dist.destroy_process_group()
