#!/bin/bash
# A training on paper: it counts steps and remembers them in a file, until a file die-N tells its task with which exit code to die.
task=${SLURM_ARRAY_TASK_ID:-0}
step=$(cat "checkpoint-$task" 2>/dev/null || echo 0)
[ "$step" = 0 ] || echo "resumed from checkpoint-$task at step $step"
while :; do
  if [ -e "die-$task" ]; then
    code=$(cat "die-$task") && rm "die-$task"
    echo "the training dies with $code"
    exit "$code"
  fi
  step=$((step + 1))
  echo "step=$step loss=0.5"
  echo "$step" >"checkpoint-$task"
  sleep 0.3
done
