"""Xid: what the NVIDIA driver reports of a GPU in the kernel log. The table is NVIDIA's catalogue of 2025-10-29; advice is our own."""

from rerail.signatures.leaning import (
    CODE_RETRY,
    ECHO,
    FAULTY_NODE,
    HARMLESS,
    ODD_NODE,
    SICK_NODE,
    TRANSIENT,
    TREND,
    Family,
    Leaning,
)
from rerail.signatures.signature import Signature

_row = Family("xid", "NVIDIA driver (NVRM), Xid catalogue of 2025-10-29")

_HEAD = r"\bXid (?:\((?:PCI:)?[0-9a-fA-F:.]+\)|[0-9]{4}:[0-9a-fA-F:.]+): "
_CATALOGUED = (
    *(8, 11, 13, 25, 31, 32, 37, 38, *range(39, 42), 43, 44, 45, 46, 48, 54, 60, 62, 63, 64, 66, 67, 68, 69, *range(70, 73), 74),
    *(*range(75, 78), 78, 79, 80, *range(82, 90), 92, 93, 94, 95, *range(96, 106), 106, 107, 109, 110, 119, 120, 121),
    *(*range(126, 136), 136, 137, *range(139, 144), *range(144, 177)),
)
"""Numbers that a row below knows."""


def _numbers(*numbers: int) -> str:
    return _HEAD + "(?:" + "|".join(map(str, numbers)) + ")[,:]"


def _line(number: int, text: str) -> str:
    return f"NVRM: Xid (PCI:0000:9b:00): {number}, pid=3141, name=python, {text}"


def _xid(leaning: Leaning, cause: str, numbers: tuple[int, ...], text: str, why: str, **more: object) -> Signature:
    name = "_".join(map(str, numbers[:3])) + ("_more" if len(numbers) > 3 else "")
    return _row(name, leaning, cause, _numbers(*numbers), why, *(_line(n, text) for n in numbers), **more)


_UNKNOWN = [str(n) for n in range(1, 177) if n not in _CATALOGUED]
_RECOVERY = _HEAD + r"154, .*GPU recovery action changed from .* to 0x"

ROWS: tuple[Signature, ...] = (
    _xid(CODE_RETRY, "gpu_idle_timeout", (8,), "GPU stopped processing", "The GPU stopped processing: application or hardware."),
    _xid(
        CODE_RETRY,
        "gpu_bad_push_buffer",
        (11, 25, 32),
        "Channel ID 0000001b intr 00000008",
        "Invalid or corrupted push-buffer stream: usually the program's doing.",
    ),
    _xid(
        CODE_RETRY,
        "gpu_engine_exception",
        (13,),
        "Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address",
        "Graphics engine exception: a program fault first; hardware only if the same GPC and TPC repeat.",
    ),
    _xid(
        CODE_RETRY,
        "gpu_page_fault",
        (31,),
        "Ch 00000010, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted @ 0x7f",
        "A GPU page fault is an illegal memory access of the program; never a reason to drain after one.",
    ),
    _xid(
        TREND, "gpu_driver_firmware_note", (37, 66), "Driver firmware error", "Illegal driver access that NVIDIA says to ignore."
    ),
    _xid(
        TREND, "gpu_driver_firmware_error", (38, 67), "Driver firmware error", "Driver firmware error: goes on the node's record."
    ),
    _xid(
        CODE_RETRY,
        "gpu_copy_engine_exception",
        (*range(39, 42), *range(70, 73), *range(75, 78), 85, *range(126, 136)),
        "Copy Engine Exception",
        "Copy-engine exception: retry, look at the GPU when it repeats.",
    ),
    _xid(
        ECHO,
        "gpu_channel_reset",
        (43,),
        "Ch 00000008",
        "The channel was reset after a fault of the program: the driver's report of a kernel assert or crash, not a broken GPU.",
    ),
    _xid(
        TREND, "gpu_context_switch_fault", (44,), "Fault during context switch", "A fault during a context switch: on the record."
    ),
    _xid(
        ECHO,
        "gpu_preemptive_cleanup",
        (45,),
        "Ch 00000008",
        "Preemptive cleanup after something else: a process was killed or another Xid came first.",
    ),
    _xid(FAULTY_NODE, "gpu_timeout", (46,), "GPU stopped processing", "The GPU timed out and needs a reset."),
    _xid(
        FAULTY_NODE,
        "gpu_ecc_uncorrectable",
        (48,),
        "DBE (double bit error) ECC Error: SM GPC 0 TPC 0",
        "A double-bit memory error that ECC could not correct.",
    ),
    _xid(
        FAULTY_NODE,
        "gpu_power_cable",
        (54,),
        "Auxiliary power is not connected to the GPU board",
        "Auxiliary power is missing at this GPU.",
    ),
    _xid(
        TRANSIENT,
        "gpu_media_engine_error",
        (60, 68, *range(82, 85), 86, 88, 89, *range(96, 106), 139),
        "Video processor exception",
        "A video, JPEG or optical-flow engine failed: rarely matters to training.",
    ),
    _xid(
        FAULTY_NODE,
        "gpu_microcontroller_halt",
        (62,),
        "Internal micro-controller halt",
        "The GPU's internal micro-controller halted; it needs a reset.",
    ),
    _xid(
        TREND,
        "gpu_row_remap_recorded",
        (63,),
        "Row Remapper: New row (0x000000000a81c2e0) marked for remapping, reset gpu to activate.",
        "A row remap was recorded: benign, plan a reset.",
    ),
    _xid(
        FAULTY_NODE,
        "gpu_row_remap_failure",
        (64,),
        "Row Remapper: Failed to remap row",
        "The GPU could not remap a bad memory row.",
    ),
    _xid(CODE_RETRY, "gpu_class_error", (69, 80), "Class Error: ChId 000a", "Class error or a corrupted push buffer."),
    _xid(
        FAULTY_NODE,
        "nvlink_error",
        (74,),
        "NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
        "A fatal error on an NVLink of this GPU.",
    ),
    _xid(HARMLESS, "vgpu_start_error", (78,), "vGPU start error", "A virtual GPU failed to start: not a training matter."),
    _xid(FAULTY_NODE, "gpu_fell_off_bus", (79,), "GPU has fallen off the bus.", "The GPU fell off the PCI Express bus."),
    _xid(TREND, "gpu_single_bit_ecc_rate", (92,), "High single-bit ECC error rate", "A high rate of corrected errors: a trend."),
    _xid(TREND, "gpu_inforom_wear", (93,), "Non-fatal violation of provisioned InfoROM wear limit", "InfoROM wear: a trend."),
    _xid(
        FAULTY_NODE,
        "gpu_ecc_contained",
        (94,),
        "Contained: LTC (0x3,0x1). RST: No, D-RST: No",
        "An uncorrectable memory error, contained to the process that used it.",
    ),
    _xid(
        FAULTY_NODE,
        "gpu_ecc_uncontained",
        (95,),
        "Uncontained: LTC TAG (0x0,0x0). RST: Yes, D-RST: No",
        "An uncontained memory error: every process on the GPU is affected.",
    ),
    _xid(HARMLESS, "smbpbi_test", (106, 107), "SMBPBI Test Message", "A management test message."),
    _xid(
        FAULTY_NODE,
        "gpu_context_switch_timeout",
        (109,),
        "Context Switch Timeout",
        "A context-switch timeout; the GPU needs a reset.",
    ),
    _xid(SICK_NODE, "gpu_security_fault", (110,), "Security fault", "A security fault in the GPU; it needs a reset."),
    _xid(
        FAULTY_NODE,
        "gpu_gsp_timeout",
        (119,),
        "Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20801702 0x4).",
        "The GPU's system processor (GSP) no longer answers the driver; often only a reboot helps.",
    ),
    _xid(
        FAULTY_NODE,
        "gpu_gsp_error",
        (120,),
        "GSP task exception: load access page fault (cause:0xd)",
        "The GPU's system processor (GSP) failed; often only a reboot helps.",
    ),
    _xid(TREND, "gpu_c2c_link_error", (121,), "C2C Link corrected error", "A corrected chip-to-chip link error: a trend."),
    _xid(FAULTY_NODE, "nvlink_training_failed", (136,), "Link Training Failed", "An NVLink could not be trained."),
    _xid(
        ECHO,
        "nvlink_privilege_error",
        (137,),
        "NVLink FLA privilege error",
        "An NVLink access was refused: look at the peer's fault first.",
    ),
    _xid(FAULTY_NODE, "gpu_ecc_uncorrectable", (140,), "ECC unrecovered error", "An unrecovered memory error."),
    _xid(TREND, "gpu_fast_path_error", (141,), "ROBUST_CHANNEL_FAST_PATH_ERROR", "A fast-path error: on the record."),
    _xid(TREND, "gpu_encoder_error", (142,), "NVENC3 Error", "An encoder error: on the record."),
    _xid(FAULTY_NODE, "gpu_init_error", (143,), "GPU Initialization Error", "The GPU could not be initialised."),
    _row(
        "nvlink5_fatal",
        FAULTY_NODE,
        "nvlink_error",
        _HEAD + r"14[4-9], .*\bFatal\b|" + _HEAD + r"150, .*\bFatal\b",
        "A fatal NVLink error (fifth generation).",
        _line(145, "RLW_CTRL Fatal XC0 i0 Link 12 (0x00000004 0x00000000 0x00000000 0x00000000)"),
        _line(149, "NETIR_LINK_EVT Fatal XC0 i0 Link 02 (0x004505c6 0x00000000 0x00000000)"),
    ),
    _row(
        "nvlink5_nonfatal",
        TREND,
        "nvlink_error_nonfatal",
        _HEAD + r"(?:14[4-9]|150), .*\bNon-?fatal\b",
        "An NVLink event that the driver recovered from: a trend.",
        _line(149, "NETIR_LINK_EVT Nonfatal XC0 i0 Link 02 (0x004505c6 0x00000000)"),
        _line(150, "MSE_WATCHDOG Nonfatal XC0 i0 Link -1 (0x0 0x0)"),
    ),
    _xid(SICK_NODE, "gpu_key_rotation_error", (151,), "Key rotation Error", "Key rotation failed on this GPU."),
    _xid(
        HARMLESS,
        "dla_error",
        (152, 153),
        "DLA SMMU Error",
        "The deep-learning accelerator of embedded parts: not a training matter.",
    ),
    _row(
        "154_none",
        HARMLESS,
        "gpu_recovered",
        _RECOVERY + r"[0-9a-f]+ \(None\)",
        "The driver says that the GPU needs no recovery any more.",
        _line(154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"),
    ),
    _row(
        "154_action",
        FAULTY_NODE,
        "gpu_needs_recovery",
        _RECOVERY + r"[0-9a-f]+ \((?:GPU Reset|Node Reboot|Drain)",
        "The driver's own verdict: this GPU needs a reset or its node a reboot.",
        _line(154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"),
        _line(154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"),
        _line(154, "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)"),
        _line(154, "GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)"),
    ),
    _xid(
        SICK_NODE,
        "nvlink_software_error",
        (155,),
        "NVLink: SW defined Xid",
        "A software-defined NVLink error; the GPU needs a reset.",
    ),
    _xid(
        FAULTY_NODE,
        "gpu_resource_retired",
        (156, 157),
        "Resource Retirement Event",
        "A part of the GPU was retired, or could not be.",
    ),
    _xid(FAULTY_NODE, "gpu_fatal_timeout", (158,), "GPU Fatal Timeout", "A fatal timeout inside the GPU."),
    _xid(ECHO, "gpu_chi_error", (159,), "CHI Non-Data Error", "A coherent-link error that follows another fault."),
    _xid(TREND, "gpu_channel_retired", (160, 161), "Channel Retirement Event", "A memory channel was retired: a trend."),
    _xid(
        TREND,
        "gpu_power_smoothing",
        (162, 163, 164, 165),
        "Power Smoothing HW Circuitry capability disengaged",
        "A power-smoothing note.",
    ),
    _xid(
        SICK_NODE, "nvlink_secure_mode_error", (166, 170), "NVLink secure mode error", "NVLink's secure mode failed on this node."
    ),
    _xid(FAULTY_NODE, "pcie_fatal_timeout", (167,), "PCIE fatal timeout", "A fatal PCI Express timeout at this GPU."),
    _xid(FAULTY_NODE, "gpu_memory_reduced", (168,), "Reduced GPU memory capacity", "The GPU has less memory than it should."),
    _xid(FAULTY_NODE, "gpu_security_processor_halt", (169,), "SEC2 halt", "The GPU's security processor halted."),
    _xid(
        FAULTY_NODE,
        "gpu_ecc_uncorrectable",
        (171, 172),
        "Uncorrectable DRAM error",
        "The detail of an uncorrectable memory error.",
    ),
    _xid(
        FAULTY_NODE,
        "gpu_uncatalogued_error",
        (173, 175, 176),
        "C2C_FATAL_LINK_FAILURE",
        "A number of the open kernel driver that NVIDIA's catalogue lacks: keep the job away, let a person decide on more.",
        source="NVIDIA open kernel modules, header of Xid numbers",
    ),
    _xid(ECHO, "gpu_channel_killed", (174,), "SILENT_RC_KILL", "A channel was killed on purpose, after something else."),
    _row(
        "told_broken",
        FAULTY_NODE,
        "gpu_xid_reported",
        r"(?i:\bxid ?(?:errors?|code|event)?:?(?: ?=)? ?\[?(?:46|48|54|62|64|74|79|95|109|119|120|136|140|143|158|167|168|169|171|172)\b)",
        "Something that watches the GPU tells of an Xid that means a broken GPU.",
        "gpud: GPU 3 reported Xid 79",
        "node-problem-detector: XidError: 119 on GPU-7d0e21c4",
        source="gpud, DCGM, node-problem-detector",
        breadth=1,
    ),
    _row(
        "told_program",
        CODE_RETRY,
        "gpu_xid_reported",
        r"(?i:\bxid ?(?:errors?|code|event)?:?(?: ?=)? ?\[?(?:8|11|13|25|31|32|43|45|69|80)\b)",
        "Something that watches the GPU tells of an Xid that the program causes first.",
        "gpud: GPU 3 reported Xid 31",
        source="gpud, DCGM, node-problem-detector",
        role="cascade",
        breadth=1,
    ),
    _row(
        "unknown",
        ODD_NODE,
        "gpu_unknown_xid",
        _HEAD + r"(?:" + "|".join(_UNKNOWN) + r"|17[7-9]|1[89][0-9]|[2-9][0-9]{2}|[0-9]{4,})[,:]",
        "An Xid number that no catalogue explains: quoted, never guessed.",
        _line(999, "unheard of"),
        _line(1, "reserved"),
    ),
)
