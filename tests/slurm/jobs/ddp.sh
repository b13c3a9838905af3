#!/bin/bash
#SBATCH --job-name=ddp --ntasks-per-node=1 --gres=gpu:1 --mem-per-cpu=1000 --output=%x-%j.log
# One torchrun on each node, in the folder that the job was submitted from; train.py lies there. TRAIN_ARGS: its arguments.
# RANKS_PER_NODE; MEET_AT: the first of 40 ports that are free on the first node.
# A requeue runs this script again from its top; train.py finds its checkpoint.
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
master=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
echo "job $SLURM_JOB_ID restart ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
# Underscores: torch 1.13 (Debian 12) knows no dashes here, newer ones take both.
# --redirects, --tee: torch 1.13 under Python 3.11 stumbles over their default; a local rank 9 that isn't there changes nothing.
# shellcheck disable=SC2086
srun --label --kill-on-bad-exit=1 /usr/bin/python3 -m torch.distributed.run \
  --nnodes="$SLURM_JOB_NUM_NODES" --nproc_per_node="${RANKS_PER_NODE:-1}" --monitor_interval=0.5 --max_restarts=0 --redirects=9:1 --tee=9:1 \
  --rdzv_id="$SLURM_JOB_ID" --rdzv_backend=c10d --rdzv_endpoint="$master:$((${MEET_AT:-20000} + SLURM_JOB_ID % 40))" \
  train.py --folder . $TRAIN_ARGS
