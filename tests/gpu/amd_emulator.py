"""Loads an emulator of AMD's instruction sets and fixes its known bugs.

$LATHE_AMD_EMULATE names the module amd_emulate.py (CodeObject.run), $TINYGRAD the checkout that the module needs.
"""
import contextlib
import ctypes
import importlib.util
import mmap
import os
import re
import struct
import subprocess
import sys

from amd_matrix import RECODED, Matrix, recode

# An LDS address has 32 bits, and the offsets of an instruction are added to it.
_LDS_REACH = 9 << 30
_PROT_READ, _PROT_WRITE, _MAP_NORESERVE = 1, 2, 0x4000


def missing():
    """Why there is no emulator on this machine; "" if there is one."""
    for name in ("LATHE_AMD_EMULATE", "TINYGRAD"):
        value = os.environ.get(name)
        if not value:
            return f"${name} is not set"
        if not os.path.exists(value):
            return f"${name} does not name an existing file: {value}"
    return ""


class _Lds:
    """The LDS of a workgroup, with all the memory behind it that a 32-bit address can reach.

    The emulator reads and writes LDS for lanes that are switched off, too, and their address registers may hold any
    value. So every address must be memory, and accesses beyond the workgroup's own bytes are not detected.
    """

    def __init__(self):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
        self.address = libc.mmap(None, _LDS_REACH, _PROT_READ | _PROT_WRITE, flags, -1, 0)
        if self.address == ctypes.c_void_p(-1).value:
            raise OSError(ctypes.get_errno(), "cannot reserve address space for LDS")

    def begin(self, size):
        ctypes.memset(self.address, 0xFF, size)  # NaNs, so that nothing is zero by chance


def _propagate_nan(pcode):
    """v_maximum and v_minimum (gfx950, gfx12) return NaN if an operand is NaN; the emulator ignores the NaN."""
    f32, u32 = pcode.dtypes.float32, pcode.dtypes.uint32

    def as_f32(v):
        return v.bitcast(f32) if v.dtype == u32 else v.cast(f32)

    def function(is_max, read):
        def fold(*operands):
            values = [read(v) for v in operands]
            result = values[0]
            for v in values[1:]:
                better = result.maximum(v) if is_max else result.minimum(v)
                result = pcode._isnan(result).where(result, pcode._isnan(v).where(v, better))
            return result
        return fold

    for name, is_max in (("maximum", True), ("minimum", False)):
        for operands in ("", "3"):
            for dtype, read in (("f32", as_f32), ("f16", pcode._f16_extract)):
                pcode._FUNCS[f"v_{name}{operands}_{dtype}"] = function(is_max, read)


def _store_anywhere(emu):
    """Fixes 4-byte stores to addresses that are not a multiple of 4, which the emulator rounds down.

    The dwords of one instruction then share words, and a store does not see what the dword before it wrote. So the rest
    of that dword is written again.
    """
    plain, UOp, dtypes = emu._mem_store, emu.UOp, emu.dtypes
    instruction, before = None, None  # the frame that translates the instruction, and the value of its previous dword

    def store(mem, addr, val, active, addr_bits=32, data_bits=32):
        nonlocal instruction, before
        if data_bits != 32:
            return plain(mem, addr, val, active, addr_bits, data_bits)
        frame = sys._getframe(1)
        while frame.f_code.co_name in ("make_stores", "<listcomp>", "<genexpr>"):
            frame = frame.f_back
        if frame is not instruction:
            instruction, before = frame, None
        wide = dtypes.uint64 if addr_bits == 64 else dtypes.uint32

        def number(x):
            return UOp.const(x, dtypes.uint32)

        word, value = addr >> UOp.const(2, wide), emu._to_u32(val)
        shift = (addr.cast(dtypes.uint32) & number(3)) * number(8)
        below = (number(1) << shift) - number(1)  # the bits of the first word that stay
        crosses = active & shift.ne(number(0))
        first = mem.index(word.valid(active))
        second = mem.index((word + UOp.const(1, wide)).valid(crosses))
        # A shift by 32 is undefined. `shift` may be 0, so a shift by 32 - shift is done in two steps.
        kept = first & below if before is None else crosses.where((before >> number(1)) >> (number(31) - shift), number(0))
        low = kept | (value << shift)
        high = (second & (below ^ number(0xFFFFFFFF))) | ((value >> number(1)) >> (number(31) - shift))
        before = value
        return [first.store(active.where(low, first)), second.store(crosses.where(high, second))]

    emu._mem_store = store


def _subnormal_halves(pcode, widened):
    """Fixes f32 to f16 and back for subnormal f16. The emulator flushes them; LLVM's kernels keep them.

    `widened` converts by integer arithmetic.
    """
    plain, dtypes, u32 = pcode._FUNCS["f32_to_f16"], pcode.dtypes, pcode._u32

    def widen(x):
        code = x.bitcast(dtypes.uint16).cast(dtypes.uint32) if x.dtype == dtypes.half else x.cast(dtypes.uint32)
        return widened(code & u32(0xFFFF)).bitcast(dtypes.float32)

    def convert(x):
        bits = x.bitcast(dtypes.uint32)
        magnitude = bits & u32(0x7FFFFFFF)
        # Adding 0.5 rounds to a multiple of 2^-24, the spacing of subnormal f16, because f32 has 24 bits.
        half = magnitude.bitcast(dtypes.float32) + pcode.UOp.const(0.5, dtypes.float32)
        code = (half.bitcast(dtypes.uint32) - u32(0x3F000000)) | ((bits >> u32(16)) & u32(0x8000))
        # Selected as integers: the emulator would convert f16 values to f32 and back.
        normal = plain(x).bitcast(dtypes.uint16)
        return (magnitude < u32(0x38800000)).where(code.cast(dtypes.uint16), normal).bitcast(dtypes.half)

    pcode._FUNCS["f32_to_f16"] = convert
    pcode._FUNCS["f16_to_f32"] = widen


def _return_from_atomics(emu):
    """Makes atomics return the old value where the instruction asks for it.

    The emulator knows the bit for that on gfx11 (glc), but not on gfx9 (sc0) and gfx12 (the lowest bit of th).
    """
    plain = emu._iattr

    def attribute(inst, name, default=0):
        if name != "glc":
            return plain(inst, name, default)
        return plain(inst, "glc") or plain(inst, "sc0") or plain(inst, "th") & 1

    emu._iattr = attribute


def _load_anywhere(pcode):
    """Fixes loads of 2 and 8 bytes from misaligned addresses, which the emulator rounds down: loads the parts."""
    plain, dtypes = pcode.Parser._handle_mem_load, pcode.dtypes

    def load(self, addr, dt):
        def part(offset, dtype, result):
            return plain(self, addr + pcode._const(addr.dtype, offset), dtype).cast(result)

        if dt in (dtypes.uint16, dtypes.int16):
            value = part(0, dtypes.uint8, dtypes.uint32) | (part(1, dtypes.uint8, dtypes.uint32) << pcode._u32(8))
        elif dt in (dtypes.uint64, dtypes.int64, dtypes.float64):
            value = part(0, dtypes.uint32, dtypes.uint64) | (part(4, dtypes.uint32, dtypes.uint64) << pcode._u64(32))
        else:
            return plain(self, addr, dt)
        return pcode._cast_to(value, dt)

    pcode.Parser._handle_mem_load = load


def _whole_registers(emu):
    """Fixes 16-bit operands of gfx9 in v128 and above.

    The emulator takes them for the upper halves of v0 and above, as on gfx11 in VOP1, VOP2 and VOPC. It does so where
    it compares a register number with 128, or a source with 256 + 128.
    """
    def whole(handler):
        def compile_instruction(inst, ctx):
            number, bits = emu._c, inst.canonical_op_bits
            if 16 in (bits.get("d"), bits.get("s0")):
                emu._c = lambda value, *dtype: number(1 << 16 if value in (128, 384) else value, *dtype)
            try:
                return handler(inst, ctx)
            finally:
                emu._c = number
        return compile_instruction

    for kind, handler in emu._INST_HANDLERS.items():
        if kind.__module__ == emu.irc.__name__ and handler in (emu._compile_vop12, emu._compile_vopc):
            emu._INST_HANDLERS[kind] = whole(handler)


def _decode_scaled(emu):
    """Fixes the decoding of gfx950's MFMA for block scales: without scales it has no prefix.

    The emulator takes the 8 bytes before it for the prefix, whatever they are.
    """
    formats = sys.modules[emu.decode_inst.__module__]
    plain, prefix = formats._matches, b"\xac\xd3"  # the upper half of the prefix's first word

    def matches(data, form):
        return plain(data, form) and (form is not emu.irc.VOP3PX2 or data[2:4] == prefix)

    formats._matches = matches


def _correct(module):
    run_asm = module._run_asm()
    emu = sys.modules[run_asm.__module__]
    pcode = sys.modules[run_asm.__module__.rpartition(".")[0] + ".pcode"]
    _propagate_nan(pcode)
    _load_anywhere(pcode)
    matrix = Matrix(emu)
    _subnormal_halves(pcode, matrix.widened_half)
    _store_anywhere(emu)
    _return_from_atomics(emu)
    _whole_registers(emu)
    _decode_scaled(emu)
    # LLVM's kernels ask to keep subnormal f32 (FLOAT_DENORM_MODE_32 is 3); the emulator flushes them.
    emu._MXCSRContext = contextlib.nullcontext
    plain, lds = emu.Buffer, _Lds()

    def buffer(device, size, dtype, *rest, **options):
        # The only buffer that the launch itself creates without options is the LDS of the workgroup.
        if rest or options or sys._getframe(1).f_code.co_name != "run_asm":
            return plain(device, size, dtype, *rest, **options)
        lds.begin(size * dtype.itemsize)
        return plain(device, _LDS_REACH // dtype.itemsize, dtype, options=emu.BufferSpec(external_ptr=lds.address))

    emu.Buffer = buffer
    _correct_matrix(module, matrix)


def _correct_matrix(module, matrix):
    class CodeObject(module.CodeObject):
        def __init__(self, path):
            super().__init__(path)
            listing = subprocess.run([module._objdump(), "-d", path], capture_output=True, text=True, check=True).stdout
            for name, at in re.findall(r"^\s+(v_mfma\w+) .*// ([0-9A-F]+):", listing, re.M):
                if name in RECODED:
                    word, = struct.unpack_from("<I", self.mem, int(at, 16))
                    struct.pack_into("<I", self.mem, int(at, 16), recode(word, RECODED[name]))

        def run(self, name, grid, block, kernarg, arch, dynamic_lds=0):
            if matrix.arch not in ("", arch):  # instructions are cached by their bits
                raise ValueError(f"one process emulates one architecture: {matrix.arch}, then {arch}")
            matrix.arch = arch
            super().run(name, grid, block, kernarg, arch, dynamic_lds)

    module.CodeObject = CodeObject


def load():
    """Returns the module. Call it only if missing() is ""."""
    spec = importlib.util.spec_from_file_location("amd_emulate", os.environ["LATHE_AMD_EMULATE"])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    _correct(module)
    return module
