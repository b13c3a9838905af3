"""Checkpoints: loading what does not fit or is broken, and saving that fails."""

from rerail.signatures.leaning import CODE, ECHO, HARMLESS, SERVICE_STOP, TRANSIENT, Family
from rerail.signatures.signature import Signature

_row = Family("checkpoint", "PyTorch serialization, safetensors, distributed checkpointing")

ROWS: tuple[Signature, ...] = (
    _row(
        "incompatible",
        CODE,
        "checkpoint_incompatible",
        r"Error\(s\) in loading state_dict|size mismatch for [A-Za-z0-9_.]+|(?:Missing|Unexpected) key\(s\) in state_dict|Missing key in checkpoint state_dict|shape mismatch between (?:the )?checkpoint|loaded state dict (?:contains a parameter group|has a different number)|ValueError: .*(?:checkpoint|state_dict).*(?:mismatch|does not match|incompatible)|world size (?:of|in) (?:the )?checkpoint|(?:checkpoint|loaded) .*(?:tensor|pipeline|zero|dp)[a-z_ -]*(?:size|degree).*(?:differs|mismatch|does not match|!=)",
        "The checkpoint does not fit the model or the layout.",
        "[rank0]: RuntimeError: Error(s) in loading state_dict for LlamaMod:",
        "        size mismatch for model.embed_tokens.weight: copying a param with shape torch.Size([32000, 4096]) from checkpoint",
        '    Missing key(s) in state_dict: "lm_head.weight".',
    ),
    _row(
        "corrupt",
        TRANSIENT,
        "checkpoint_corrupt",
        r"PytorchStreamReader failed|invalid header or archive is corrupted|failed finding central directory|UnpicklingError: (?:invalid|pickle|unpickling|could not|unexpected)|EOFError: Ran out of input|safetensors_rust\.SafetensorError|SafetensorError|[Hh]eader ?[Tt]oo ?[Ll]arge|InvalidHeaderDeserialization|MetadataIncompleteBuffer|BadZipFile|zlib\.error|[Cc]heckpoint .*(?:is corrupt|corrupted|truncated|incomplete)|[Cc]hecksum mismatch|unexpected EOF, expected [0-9]+ more bytes|magic number .*(?:invalid|mismatch)|CRC check failed",
        "The checkpoint file is broken or cut short: an older one may load.",
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory",
        "_pickle.UnpicklingError: invalid load key, '\\x00'.",
        "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
        "EOFError: Ran out of input",
    ),
    _row(
        "not_found",
        CODE,
        "checkpoint_missing",
        r"(?:[Cc]ould not|[Cc]annot|can't|[Uu]nable to|[Ff]ailed to) (?:find|locate|open) (?:the |a |any )?(?:valid )?(?:checkpoint|metadata file)|[Cc]heckpoint (?:path |directory |file )?[^ \n]+ (?:does not exist|not found)|No checkpoint found|latest_checkpointed_iteration\.txt.*(?:not found|missing)|exiting: (?:could not find|no) checkpoint",
        "The checkpoint to start from is not there.",
        "ValueError: Cannot find checkpoint at /ckpt/iter_0001000",
        ">> '--exit-on-missing-checkpoint' set ... exiting. << Checkpoint /ckpt/iter_0001000 not found",
        breadth=1,
    ),
    _row(
        "write_stream",
        SERVICE_STOP,
        "disk_full",
        r"PytorchStreamWriter failed writing file|basic_ios::clear: iostream error|inline_container\.cc:[0-9]+\] ?\. unexpected pos",
        "Writing the file broke off: mostly a full disk that says no more.",
        "0: [rank0]: RuntimeError: basic_ios::clear: iostream error",
        "RuntimeError: [enforce fail at inline_container.cc:337] . unexpected pos 7310021888 vs 7310021784",
        "RuntimeError: [enforce fail at inline_container.cc:471] . PytorchStreamWriter failed writing file data/17: file write failed",
    ),
    _row(
        "save_failed",
        TRANSIENT,
        "checkpoint_save_failed",
        r"(?i:(?:failed|failure|error|unable|exception).* (?:to |while |in |during |when )?sav(?:e|ing)(?: the| a| model)*[ _-]checkpoint|async(?:hronous)? (?:checkpoint )?save failed|checkpoint (?:save|write|upload) (?:failed|error))",
        "A checkpoint could not be saved.",
        "ERROR: async checkpoint save failed at step 1000",
        breadth=1,
    ),
    _row(
        "dcp",
        ECHO,
        "checkpoint_failed",
        r"torch\.distributed\.checkpoint\.api\.CheckpointException|CheckpointException ranks",
        "The distributed checkpoint failed: the ranks named say why.",
        "torch.distributed.checkpoint.api.CheckpointException: CheckpointException ranks:dict_keys([0, 1])",
        breadth=1,
    ),
    _row(
        "weights_only",
        CODE,
        "checkpoint_untrusted",
        r"Weights only load failed|WeightsUnpickler error",
        "The checkpoint holds more than tensors, which this version refuses.",
        "Weights only load failed. This file can still be loaded, to do so you have two options",
    ),
    _row(
        "strict_note",
        HARMLESS,
        "checkpoint_note",
        r"(?:Some weights of .* were not (?:initialized|used)|newly initialized: \[|You should probably TRAIN this model|could not find the metadata file .*latest_checkpointed_iteration|will not load any checkpoints and will start from random)",
        "A start without, or with part of, a checkpoint.",
        "WARNING: could not find the metadata file /ckpt/latest_checkpointed_iteration.txt",
        "    will not load any checkpoints and will start from random",
    ),
)
