"""Accelerators and fabrics beside NVIDIA and InfiniBand: Ascend, Gaudi, AMD, Omni-Path, Slingshot, EFA; counters of health tools."""

from rerail.signatures.leaning import CODE, ECHO, ECHO_HANG, ECHO_HARDWARE, ECHO_NETWORK, FAULTY_NODE, SICK_NODE, Family
from rerail.signatures.signature import Signature

_ascend = Family("ascend", "CANN, torch_npu, HCCL")
_gaudi = Family("gaudi", "Habana SynapseAI")
_amd = Family("amd", "amdgpu driver, RCCL")
_fabric = Family("fabric", "Omni-Path hfi1, HPE Slingshot, libfabric")
_tool = Family("health", "nvidia-smi, DCGM, node checks")

ROWS: tuple[Signature, ...] = (
    _ascend(
        "out_of_memory",
        CODE,
        "cuda_oom",
        r"NPU out of memory|EL0004|Failed to allocate memory on (?:npu|device)",
        "Device memory does not suffice.",
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.97 GiB total capacity)",
    ),
    _ascend(
        "ecc",
        FAULTY_NODE,
        "gpu_ecc_uncorrectable",
        r"(?:HBM|DDR|L2).*(?:multi[- ]bit|uncorrectable) ?ECC|UCE ERROR|\bEE9999\b.*ECC|device.*memory UCE",
        "The device's memory failed.",
        "RuntimeError: UCE ERROR, device memory UCE error, device_id=3",
    ),
    _ascend(
        "link",
        FAULTY_NODE,
        "accelerator_link_down",
        r"(?i:(?:hccs|roce|hccn).*(?:link (?:is )?down|link error|port down))",
        "A link of the device is down.",
        "hccn: device 3 roce link down",
    ),
    _ascend(
        "notify_timeout",
        ECHO_HANG,
        "nccl_timeout_unexplained",
        r"EI000[26]|Notify register times out|HCCL.*(?:[Tt]ime ?out|timed out)|HcclAllReduce.*time ?out|ERR02[0-9]{3}",
        "A collective of HCCL waited in vain.",
        "EI0002: The wait execution of the Notify register times out. Reason: The Notify register has not received the Notify record from remote rank [3].",
    ),
    _ascend(
        "inner",
        ECHO,
        "accelerator_inner_error",
        r"\bE[ZE]9999\b: Inner Error|aicore exception|rtStreamSynchronize execute failed|ACL stream synchronize failed|The Inner error is reported as above",
        "The runtime's summary: an earlier fault or the kernel.",
        "EZ9999: Inner Error, Please contact support engineer!",
    ),
    _gaudi(
        "device",
        FAULTY_NODE,
        "accelerator_failure",
        r"habanalabs .*(?:[Cc]ritical|[Ff]atal|RAZWI|unrecoverable|heartbeat failed|hard reset|device is unusable)|synStatus=[0-9]+ \[(?:Device|No device)|Habana device not found|HL_DEVICE_[A-Z_]*(?:FAIL|MALFUNCTION)",
        "A Gaudi device failed.",
        "habanalabs 0000:33:00.0: Device heartbeat failed! Going to reset device",
    ),
    _amd(
        "reset",
        FAULTY_NODE,
        "gpu_memory_fault",
        r"amdgpu.*(?:GPU reset begin|GPU reset\([0-9]+\) (?:failed|succeeded)|uncorrectable hardware errors|RAS (?:event|error).*uncorrect|ring [a-z0-9_.]+ timeout|GPU (?:hang|lost)|PSP load|bad_page_cnt_threshold)",
        "An AMD GPU hung, was reset or counts memory errors.",
        "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!",
        "amdgpu 0000:c1:00.0: amdgpu: 3 uncorrectable hardware errors detected in umc block",
    ),
    _amd(
        "xgmi",
        FAULTY_NODE,
        "nvlink_error",
        r"(?i:xgmi.*(?:link (?:down|fail)|uncorrectable|fatal|error detected))",
        "A link between GPUs failed.",
        "amdgpu 0000:c1:00.0: amdgpu: xgmi link down",
    ),
    _fabric(
        "omnipath_down",
        FAULTY_NODE,
        "ib_link_flap",
        r"hfi1(?:_[0-9]+)?[ :].*(?:[Ll]ink (?:down|went down|is down|width)|physical state changed to (?:Offline|Polling)|8051.*(?:fail|error)|SDMA .*hung|hardware error|HW freeze)",
        "An Omni-Path port of this host lost its link or froze.",
        "hfi1 0000:5e:00.0: hfi1_0: Link down reason: Unknown",
    ),
    _fabric(
        "slingshot_down",
        FAULTY_NODE,
        "ib_link_flap",
        r"cxi_(?:core|eth|ss1).*(?:[Ll]ink (?:down|fault|is down)|LINK_DOWN|uncorrectable|fatal)|hsn[0-9]+: (?:Lost carrier|[Ll]ink (?:is )?[Dd]own)",
        "A Slingshot port of this host lost its link.",
        "cxi_core 0000:21:00.0: cxi0[hsn0]: Link down",
    ),
    _fabric(
        "libfabric",
        ECHO_NETWORK,
        "network_transport_error",
        r"OFI (?:poll|send|recv|tagged[a-z]*) failed|libfabric:[0-9:]+.*(?:error|timeout|unreachable|fail)|fi_(?:cq_read(?:err)?|send|recv|mr_reg)[a-z]*(?:\(\))? failed|efa:cq:.*(?:err|fail)|PTL_(?:PT_DISABLED|OK .*timeout|NOT_FOUND)",
        "A transfer over libfabric failed: either end or the path.",
        "MPIDI_OFI_handle_cq_error(1075): OFI poll failed (ofi_events.c:1077:MPIDI_OFI_handle_cq_error:Input/output error)",
    ),
    _tool(
        "remap_failed",
        FAULTY_NODE,
        "gpu_row_remap_failure",
        r"Remapping Failure Occurred *: *Yes|(?i:row remap(?:ping)? failure)",
        "The GPU could not remap a bad memory row.",
        "        Remapping Failure Occurred        : Yes",
    ),
    _tool(
        "volatile_ecc",
        FAULTY_NODE,
        "gpu_ecc_uncorrectable",
        r"(?i:(?:volatile|uncorr(?:ectable|ected)?).*(?:ecc|sram|dram).*[:=] *[1-9])",
        "The GPU counts uncorrectable memory errors since its last reset.",
        "ecc.errors.uncorrected.volatile.total: uncorrectable ECC errors: 3",
        role="cascade",
    ),
    _tool(
        "retired_pending",
        ECHO_HARDWARE,
        "gpu_reset_pending",
        r"(?:Pending|Page Blacklist|Remapped Rows?).*(?:Pending)? *: *Yes",
        "The GPU waits for a reset to retire memory.",
        "            Pending                       : Yes",
    ),
    _tool(
        "gpu_count",
        FAULTY_NODE,
        "gpu_missing",
        r"(?i:(?:expected|want(?:ed)?|should (?:be|have)) [0-9]+ gpus?.*(?:found|got|see|detected|have|only) *:? *[0-9]|(?:found|only|detected) [0-9]+ (?:of|out of|/) ?[0-9]+ gpus?|gpu count mismatch)",
        "The host shows fewer GPUs than it should.",
        "node check: expected 8 GPUs, found 7",
    ),
    _tool(
        "gpu_processes",
        SICK_NODE,
        "gpu_busy",
        r"(?i:(?:left-?over|stale|zombie|orphan(?:ed)?) process(?:es)?\b.*(?:\bgpu|\bcuda|/dev/nvidia))",
        "Processes of an earlier job still hold the GPU.",
        "prolog: stale process 3141 holds /dev/nvidia3",
        role="cascade",
    ),
)
