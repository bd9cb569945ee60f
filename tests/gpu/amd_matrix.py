"""MFMA and WMMA for the emulator of AMD's instruction sets, where the emulator's own are wrong.

Its MFMA is wrong for the rows of 32x32, for f16 that is not normal, for bf16 and bytes on gfx90a, for the 8-bit
floats of gfx942 and for block scales. Its WMMA reads 8-bit floats as f16, and reads v128 and above for accumulators
that start as 0.

By the CDNA2, CDNA3 and CDNA4 instruction set guides, a lane holds K / groups neighbouring elements of one row of A and
of one column of B. Accumulator i of lane l is in column l % edge of D, and in row 4 * (l / 16) + i for 16x16 or row
8 * (i / 4) + 4 * (l / 32) + i % 4 for 32x32. The 8-bit floats are FNUZ on gfx942 and OCP on gfx950; this reading of the
formats is not verified on hardware. The flushing of f16 and bf16 subnormals on gfx90a is not modelled.

With block scales (V_MFMA_SCALE_F32_*_F8F6F4 of gfx950) a lane holds 32 elements of each operand. Those of 4 bits are
neighbours: group g of the lanes has block g of K. Those of 8 bits are two runs of 16: group g has runs g and
groups + g. Group g gives the scale of block g, in the byte of a register that op_sel (lower bit) and op_sel_hi (upper
bit) name. composable_kernel's test/mx_mfma_op/scale_mapping_*.txt lists the same mapping as measured on hardware.
"""
import re

# The formats by their names in the instructions: bits of exponent and fraction, bias, and what an exponent of all ones
# means.
_OCP = {"FP8": (4, 3, 7, "nan"), "BF8": (5, 2, 15, "ieee")}
_FNUZ = {"FP8": (4, 3, 8, "fnuz"), "BF8": (5, 2, 16, "fnuz")}
_FP4 = (2, 1, 1, "number")
_SCALED = {0: ("FP8", 8), 1: ("BF8", 8), 4: ("FP4", 4)}  # by CBSZ and BLGP: the format and its bits
_FLOATS = {"F16": (5, 10, 15, "ieee"), "BF16": (8, 7, 127, "ieee")}
_BITS = {"F32": 32, "F16": 16, "BF16": 16, "I8": 8, "FP8": 8, "BF8": 8}

# Opcodes that mean these instructions on gfx90a and others elsewhere.
_GFX90A = {84: "V_MFMA_I32_32X32X8_I8", 85: "V_MFMA_I32_16X16X16_I8"}
# gfx90a instructions, by LLVM's names, that the emulator knows under another opcode.
RECODED = {"v_mfma_f32_32x32x8bf16_1k": 96, "v_mfma_f32_16x16x16bf16_1k": 97}


def recode(word, opcode):
    """The first word of the instruction with another opcode."""
    return word & ~(0x7F << 16) | opcode << 16


class _SumsOf:
    """An instruction's context in which the accumulator registers of `field` read as 0 if the field is a constant.

    0 is the only constant that LLVM uses as accumulator.
    """

    def __init__(self, ctx, field, number):
        self._ctx, self._field, self._number = ctx, field, number

    def __getattr__(self, name):
        return getattr(self._ctx, name)

    def rvgpr_dyn(self, register, *rest):
        value = self._ctx.rvgpr_dyn(register, *rest)
        if self._field not in register.toposort():
            return value
        return (self._field >= self._number(256)).where(value, self._number(0))


class Matrix:
    """Replaces emu._compile_mfma and _compile_wmma. Set `arch` before the first launch."""

    def __init__(self, emu):
        self.emu, self.mfma, self.wmma, self.arch = emu, emu._compile_mfma, emu._compile_wmma, ""
        emu._compile_mfma, emu._compile_wmma = self.compile_mfma, self.compile_wmma

    def number(self, x):
        return self.emu.UOp.const(x, self.emu.dtypes.uint32)

    def index(self, x):
        return self.emu.UOp.const(x, self.emu.dtypes.int)

    def widened(self, bits, form):
        """Converts a small float to the bits of an f32 by integer arithmetic, which the emulator's optimizer keeps."""
        exponent_bits, fraction_bits, bias, ones = form
        n, f32 = self.number, self.emu.dtypes.float32
        sign = (bits >> n(exponent_bits + fraction_bits)) << n(31)
        exponent = (bits >> n(fraction_bits)) & n((1 << exponent_bits) - 1)
        fraction = bits & n((1 << fraction_bits) - 1)
        normal = ((exponent + n(127 - bias)) << n(23)) | (fraction << n(23 - fraction_bits))
        small = fraction.cast(f32) * self.emu.UOp.const(2.0**(1 - bias - fraction_bits), f32)
        value = exponent.eq(n(0)).where(small.bitcast(self.emu.dtypes.uint32), normal)
        if ones == "ieee":
            special = n(0x7F800000) | (fraction << n(23 - fraction_bits))
            value = exponent.eq(n((1 << exponent_bits) - 1)).where(special, value)
        if ones == "nan":
            value = (bits & n(0x7F)).eq(n(0x7F)).where(n(0x7FC00000), value)
        if ones == "fnuz":
            value = bits.eq(n(0x80)).where(n(0x7FC00000), value)
        return value | sign

    def widened_half(self, bits):
        return self.widened(bits, _FLOATS["F16"])

    def element(self, register, at, name):
        """Element `at` of a register, as 32 bits."""
        bits = _BITS[name]
        if bits == 32:
            return register
        code = (register >> self.number(at * bits)) & self.number((1 << bits) - 1)
        if name == "I8":
            return (code ^ self.number(0x80)) - self.number(0x80)
        if name == "BF16":
            return code << self.number(16)
        small = _FNUZ if self.arch == "gfx942" else _OCP
        return self.widened(code, small[name] if name in small else _FLOATS[name])

    def compile_wmma(self, inst, ctx):
        ctx = _SumsOf(ctx, ctx.inst_field(type(inst).src2), self.number)
        match = re.fullmatch(r"V_WMMA_F32_16X16X16_(FP8|BF8)_\1", self.emu._op_name(inst))
        if not match:
            return self.wmma(inst, ctx)
        functions, name = self.emu._FUNCS, "f16_to_f32"  # the function that converts every operand
        plain = functions[name]
        functions[name] = lambda code: self.widened(code, _OCP[match[1]]).bitcast(self.emu.dtypes.float32)
        try:
            return self.wmma(inst, ctx)
        finally:
            functions[name] = plain

    def compile_mfma(self, inst, ctx):
        emu = self.emu
        name = emu._op_name(inst)
        if self.arch == "gfx90a":
            name = _GFX90A.get(inst.op.value, name)
        if match := re.fullmatch(r"V_MFMA_(?:SCALE_)?F32_(16|32)X(?:16|32)X(\d+)_F8F6F4", name):
            return self.compile_scaled(inst, ctx, int(match[1]), int(match[2]))
        match = re.fullmatch(r"V_MFMA_(F32|I32)_(16|32)X(?:16|32)X(\d+)_(F32|F16|BF16|I8|(?:FP8|BF8)_(?:FP8|BF8))", name)
        if not match:
            return self.mfma(inst, ctx)
        edge, depth, types = int(match[2]), int(match[3]), match[4].split("_")
        dtype = emu.dtypes.int32 if match[1] == "I32" else emu.dtypes.float32
        tmp = emu.UOp.placeholder((2 * edge * depth,), emu.dtypes.uint32, slot=0, addrspace=emu.AddrSpace.LOCAL)
        read = self.read(inst, ctx, tmp, edge, depth, (types[0], types[-1]))
        write = self.multiply(inst, ctx, tmp.after(read), edge, depth, dtype)
        return emu.UOp.sink(read, write, *ctx.inc_pc())

    def read(self, inst, ctx, tmp, edge, depth, types):
        """Copies A, row by row, and B, column by column, into tmp."""
        if self.emu._iattr(inst, "acc"):
            raise RuntimeError("MFMA with operands in accumulation registers is not supported")
        here = depth * edge // 64  # elements per lane
        lane = ctx.range()
        first = (lane % self.index(edge)) * self.index(depth) + (lane // self.index(edge)) * self.index(here)
        stores = []
        for side, (field, name) in enumerate(zip((type(inst).src0, type(inst).src1), types)):
            source, in_register = ctx.inst_field(field), 32 // _BITS[name]
            for k in range(here):
                register = ctx.rvgpr_dyn(source - self.number(256 - k // in_register), lane)
                at = first + self.index(side * edge * depth + k)
                stores.append(tmp.index(at).store(self.element(register, k % in_register, name)))
        return self.emu.UOp.group(*stores).end(lane)

    def multiply(self, inst, ctx, tmp, edge, depth, dtype):
        accumulators = bool(self.emu._iattr(inst, "acc_cd"))
        get, put = (ctx.raccvgpr_dyn, ctx.waccvgpr_dyn) if accumulators else (ctx.rvgpr_dyn, ctx.wvgpr_dyn)
        c, d, active = ctx.inst_field(type(inst).src2), ctx.inst_field(type(inst).vdst), ctx.rexec()
        in_registers = c >= self.number(256)
        constant = ctx.rsgpr_dyn(c, in_registers.ne(True)).bitcast(dtype)
        lane = ctx.range()
        column = self.index(edge * depth) + (lane % self.index(edge)) * self.index(depth)
        stores = []
        for i in range(edge * edge // 64):
            row = (lane // self.index(edge)) * self.index(4) + self.index(i if edge == 16 else 8 * (i // 4) + i % 4)
            total = in_registers.where(get(c - self.number(256 - i), lane, in_registers).bitcast(dtype), constant)
            for k in range(depth):
                x = tmp.index(row * self.index(depth) + self.index(k)).bitcast(dtype)
                total = total + x * tmp.index(column + self.index(k)).bitcast(dtype)
            stores.append(put(d + self.number(i), lane, total.bitcast(self.emu.dtypes.uint32), active))
        return self.emu.UOp.group(*stores).end(lane)

    def compile_scaled(self, inst, ctx, edge, depth):
        """D is C plus the sums of each block of 32 products times the scales of A and B."""
        emu, groups = self.emu, 64 // edge
        if emu._iattr(inst, "acc"):
            raise RuntimeError("MFMA with operands in accumulation registers is not supported")
        elements, sums = 2 * edge * depth, edge * edge
        tmp = emu.UOp.placeholder((elements + 2 * edge * groups + sums,), emu.dtypes.uint32, slot=0,
                                  addrspace=emu.AddrSpace.LOCAL)
        lane, i, stores = ctx.range(), ctx.range(32), []
        row, group = lane % self.index(edge), lane // self.index(edge)
        formats = (int(inst.cbsz), int(inst.blgp))
        sources = (type(inst).src0, type(inst).src1)
        for side in range(2):
            name, bits = _SCALED[formats[side]]
            in_register = self.index(32 // bits)
            first = ctx.inst_field(sources[side]) - self.number(256)
            register = ctx.rvgpr_dyn(first + (i // in_register).cast(emu.dtypes.uint32), lane)
            shift = (i % in_register).cast(emu.dtypes.uint32) * self.number(bits)
            element = self.widened((register >> shift) & self.number((1 << bits) - 1),
                                   _FP4 if bits == 4 else _OCP[name])
            k = group * self.index(32) + i
            if bits == 8:
                k = (group + i // self.index(16) * self.index(groups)) * self.index(16) + i % self.index(16)
            stores.append(tmp.index(self.index(side * edge * depth) + row * self.index(depth) + k).store(element))
            scale = self.number(127)
            if hasattr(type(inst), "scale_src0"):
                field = (type(inst).scale_src0, type(inst).scale_src1)[side]
                byte = emu._iattr(inst, "opsel") >> side & 1 | (emu._iattr(inst, "opsel_hi") >> side & 1) << 1
                word = ctx.rvgpr_dyn(ctx.inst_field(field) - self.number(256), lane)
                scale = (word >> self.number(8 * byte)) & self.number(0xFF)
            at = self.index(elements + side * edge * groups) + row * self.index(groups) + group
            stores.append(tmp.index(at).store(scale))
        read = emu.UOp.group(*stores).end(i, lane)
        read_sums = self.read_sums(inst, ctx, tmp, elements + 2 * edge * groups, sums // 64)
        write = self.multiply_blocks(inst, ctx, tmp.after(read, read_sums), edge, depth)
        return emu.UOp.sink(read, read_sums, write, *ctx.inc_pc())

    def read_sums(self, inst, ctx, tmp, start, count):
        """Copies C into tmp, because D may overlap other registers of it."""
        get = ctx.raccvgpr_dyn if self.emu._iattr(inst, "acc_cd") else ctx.rvgpr_dyn
        c, lane, i = ctx.inst_field(type(inst).src2), ctx.range(), ctx.range(count)
        in_registers = c >= self.number(256)
        constant = ctx.rsgpr_dyn(c, in_registers.ne(True))
        value = get(c - self.number(256) + i.cast(self.emu.dtypes.uint32), lane, in_registers)
        at = self.index(start) + lane * self.index(count) + i
        return tmp.index(at).store(in_registers.where(value, constant)).end(i, lane)

    def power(self, exponent):
        """2^(exponent - 127), for exponents from 0 to 254."""
        bits = exponent.eq(self.number(0)).where(self.number(0x00400000), exponent << self.number(23))
        return bits.bitcast(self.emu.dtypes.float32)

    def multiply_blocks(self, inst, ctx, tmp, edge, depth):
        groups, f32 = 64 // edge, self.emu.dtypes.float32
        put = ctx.waccvgpr_dyn if self.emu._iattr(inst, "acc_cd") else ctx.wvgpr_dyn
        d, active, count = ctx.inst_field(type(inst).vdst), ctx.rexec(), edge * edge // 64
        lane, i, k = ctx.range(), ctx.range(count), ctx.range(32)
        column, scales = lane % self.index(edge), 2 * edge * depth
        four = self.index(4)
        row = (lane // self.index(edge)) * four + i // four * self.index(8) + i % four
        total = tmp.index(self.index(scales + 2 * edge * groups) + lane * self.index(count) + i).bitcast(f32)
        for block in range(groups):
            at = self.index(32 * block) + k
            x = tmp.index(row * self.index(depth) + at).bitcast(f32)
            y = tmp.index(self.index(edge * depth) + column * self.index(depth) + at).bitcast(f32)
            part = (x * y).reduce(k, arg=self.emu.Ops.ADD)
            a = tmp.index(self.index(scales + block) + row * self.index(groups))
            b = tmp.index(self.index(scales + edge * groups + block) + column * self.index(groups))
            # The scale may be beyond f32, so half of its exponent is applied at a time.
            half = (a + b) >> self.number(1)
            scaled = part * self.power(half) * self.power(a + b - half)
            has_nan = a.eq(self.number(255)) | b.eq(self.number(255))
            total = total + has_nan.where(self.emu.UOp.const(float("nan"), f32), scaled)
        store = put(d + i.cast(self.emu.dtypes.uint32), lane, total.bitcast(self.emu.dtypes.uint32), active)
        return store.end(i, lane)
