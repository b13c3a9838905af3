"""A small, real data-parallel training (gloo, CPU) that resumes exactly: the batch of a step depends on step and rank alone.

Faults come from outside, by signals; only --bad-batch-at puts a wrong label into one batch, which is what a broken data set does.
"""

import argparse
import datetime
import logging
import os
import socket
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES, CLASSES, BATCH = 64, 10, 32


def main():
    asked = arguments()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format=f"[%(asctime)s][rank {rank}][%(levelname)s] %(message)s")
    logging.info("start host=%s pid=%d world=%s", socket.gethostname(), os.getpid(), os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=asked.timeout))
    network = nn.Sequential(nn.Linear(FEATURES, 128), nn.GELU(), nn.Linear(128, CLASSES))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    checkpoint = os.path.join(asked.folder, "checkpoint.pt")
    for step in range(resume(checkpoint, network, optimizer), asked.steps):
        train(step, rank, asked, model, optimizer)
        if (step + 1) % asked.checkpoint_every == 0:
            if rank == 0:
                save(checkpoint, step + 1, network, optimizer)
            dist.barrier()
    logging.info("done")
    dist.destroy_process_group()


def train(step, rank, asked, model, optimizer):
    began = time.perf_counter()
    features, labels = batch(step, rank)
    if step == asked.bad_batch_at and rank == asked.bad_batch_rank:
        labels[0] = CLASSES
    time.sleep(asked.step_s)  # stands for the computing of a bigger model
    loss = nn.functional.cross_entropy(model(features), labels)
    computed = time.perf_counter()
    optimizer.zero_grad()
    loss.backward()  # the gradients are averaged over all ranks in here
    synced = time.perf_counter()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    times = (computed - began, synced - computed, time.perf_counter() - began)
    logging.info(
        "step=%d loss=%.9g grad_norm=%.6g compute_s=%.3f sync_s=%.3f step_s=%.3f", step, loss.item(), norm.item(), *times
    )


def batch(step, rank):
    """The examples of one rank in one step, whatever was run before."""
    features = torch.randn(BATCH, FEATURES, generator=torch.Generator().manual_seed(step * 4096 + rank))
    truth = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(7))
    return features, (features @ truth).argmax(1)


def resume(path, network, optimizer):
    """The first step to do: that of the checkpoint, or 0."""
    if not os.path.exists(path):
        return 0
    saved = torch.load(path)
    network.load_state_dict(saved["network"])
    optimizer.load_state_dict(saved["optimizer"])
    logging.info("resumed from %s at step %d", path, saved["step"])
    return saved["step"]


def save(path, step, network, optimizer):
    """Written beside and moved: a killed writer leaves the old checkpoint whole."""
    state = {"step": step, "network": network.state_dict(), "optimizer": optimizer.state_dict()}
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)
    logging.info("saved checkpoint step=%d path=%s", step, path)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True, help="where the checkpoint lies")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--step-s", type=float, default=0.2, help="seconds that a step takes at least")
    parser.add_argument("--checkpoint-every", type=int, default=10, help="steps")
    parser.add_argument("--timeout", type=float, default=1800, help="of a collective, in seconds")
    parser.add_argument("--bad-batch-at", type=int, default=-1, help="step whose batch has a label out of range")
    parser.add_argument("--bad-batch-rank", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
