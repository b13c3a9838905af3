"""Lines of runs that are well: none may be called a root."""

# ruff: noqa: E501  (lines as they are)

import pytest

from rerail.records import Role
from rerail.signatures import by_id, loudest, scan

HEALTHY = """
 [2025-03-11 22:04:50.251981] iteration        1/  500000 | consumed samples:         1024 | lm loss: 3.2E+00 | number of skipped iterations:   0 | number of nan iterations:   0 |
 [2025-03-11 22:04:50.251981] iteration      601/   60000 | lm loss: 3.197512E+00 | loss scale: 67108864.0 | grad norm: inf | number of skipped iterations:   1 |
  9%|#         | 298/3000 [14:24<2:10:35,  2.98s/it]  9%|#         | 299/3000 [14:27<2:10:32,  2.98s/it]
{'loss': 2.3101, 'grad_norm': 0.81, 'learning_rate': 1.9e-05, 'epoch': 0.12}
0: [titan] 2025-01-19 14:30:00,000 - root - INFO - step: 10  loss:  7.0801  memory: 40.90GiB(51.64%)  tps: 2,400  mfu: 41.2%
Epoch 3: 100%|##########| 1000/1000 [10:00<00:00,  1.66it/s, v_num=7, train_loss=0.123]
EVAL (1) | mIoU 0.5540 | error_rate 0.3080 | fail_ratio 0.0000
val_error: 0.4000 | top1_error 23.1 | word error rate 5.2
errorhandler==2.0.1
timeout-decorator==0.5.0
retrying==1.3.4
  check_for_nan_in_loss_and_grad .................. True
  nccl_timeout ...................................... 600
  log_straggler ................................... False
  exit_on_missing_checkpoint ...................... False
gpu-0413:21603:21603 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation
gpu-0413:21603:21603 [0] NCCL INFO Channel 00/16 : 0[0] -> 1[1] via P2P/CUMEM/read
gpu-0413:21603:21603 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.4<0>
gpu-0413:21603:21700 [0] NCCL INFO comm 0x55 rank 3 nranks 8 cudaDev 3 busId 1a000 - Destroy COMPLETE
wandb: Network error (ConnectionError), entering retry loop.
wandb: Network error resolved after 0:04:12.118230, resuming normal operation.
wandb: Waiting for W&B process to finish... (success).
/opt/conda/lib/python3.10/site-packages/torch/utils/checkpoint.py:464: UserWarning: the use_reentrant parameter should be passed explicitly. In version 2.4 we will raise an exception if use_reentrant is not passed.
Token indices sequence length is longer than the specified maximum sequence length for this model (9123 > 8192). Running this sequence through the model will result in indexing errors
You are using a model of type llama to instantiate a model of type llama_mod. This is not supported for all configurations of models and can yield errors.
WARNING:urllib3.connectionpool:Retrying (Retry(total=3, connect=None)) after connection broken by 'NewConnectionError: Failed to establish a new connection: [Errno 111] Connection refused'
[W socket.cpp:558] [c10d] The IPv6 network addresses of (ptjob-77-master-0, 23456) cannot be retrieved (gai error: -3 - Temporary failure in name resolution).
[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768
15: WARNING: gradient overflow, skipping step, reducing loss scale to 33554432.0
GPU available: True (cuda), used: True
NCCL version 2.20.5+cuda12.4
/dev/nvme0n1p2  1.8T  202G  1.5T  19% /
fatal: detected dubious ownership in repository at '/proj/data' (ignored)
ERROR: pip's dependency resolver does not currently take into account all the packages that are installed.
2026-08-23 06:11:02.110211: W tensorflow/core/common_runtime/bfc_allocator.cc:290] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.21GiB with freed_by_count=0. The caller indicates that this is not a failure
[px-12-031:3768] PMIX ERROR: PMIX_ERR_NO_PERMISSIONS in file dstore_base.c at line 238
    raise RuntimeError("CUDA error: uncorrectable ECC error encountered")
    logger.error("NCCL error: unhandled system error")
3: [rank3]:     except (OSError, TimeoutError) as error:
+ export NCCL_ASYNC_ERROR_HANDLING=1 TORCH_NCCL_TRACE_BUFFER_SIZE=0
[Tue Mar 11 11:01:21 2025] mlx5_core 0000:5e:00.0: mlx5_pcie_event:299:(pid 8791): PCIe slot advertised sufficient power (27W).
[Tue Mar 11 11:01:21 2025] mlx5_core 0000:4e:00.0 ibs1: Link up
[Tue Mar 11 23:14:06 2025] EDAC MC2: 1 CE memory scrubbing error on CPU_SrcID#0_MC#1_Chan#1_DIMM#0 (channel:1 slot:0)
[Wed Mar 12 06:30:26 2025] pcieport 0000:97:01.0: AER: Corrected error received: 0000:98:00.0
[Wed Mar 12 06:30:26 2025] NVRM: Xid (PCI:0000:bd:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row (0x0a) marked for remapping, reset gpu to activate.
[Wed Mar 12 06:30:26 2025] NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)
[Wed Mar 12 06:30:26 2025] nvidia-nvswitch3: SXid (PCI:0000:ca:00.0): 12021, Non-fatal, Link 32 single-bit ECC
nfs: server nas1 OK
/x/torchvision/io/image.py:13: UserWarning: Failed to load image Python extension: 'libpng16.so.16: cannot open shared object file: No such file or directory'
WARNING: ImportError: No module named 'apex', falling back to torch layer norm
stragglers found: 0
straggler detection: on
nan loss check: True, skip nan loss: True
straggler ranks: none
mce: CPU17: Core temperature/speed normal (total events = 1)
note: if you see 'CUDA error: out of memory' lower the batch size
[INFO] saved checkpoint step=1000 path=/ckpt/iter_0001000.pt bytes=4800271
0: [exiting program after 60 minutes] datetime: 2023-07-18 14:53:52
Training finished, model exported to /proj/flow/out/final
srun: Job 77 step creation temporarily disabled, retrying (Requested nodes are busy)
slurmstepd: error: pyxis: if the image has an unusual entrypoint, try using --no-container-entrypoint
Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded
""".strip("\n").split("\n")


@pytest.mark.parametrize("line", HEALTHY)
def test_a_healthy_line_is_no_root_and_no_echo(line: str) -> None:
    voice = loudest([by_id(hit.id) for hit in scan(line.encode())])
    assert voice is None or voice.role is Role.NOISE


def test_progress_lines_cost_nothing_because_no_row_knows_them() -> None:
    assert scan("\n".join(line for line in HEALTHY if "iteration " in line or "it/s" in line or "'loss'" in line).encode()) == []
