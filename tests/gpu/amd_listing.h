// AMD machine code as listed by llvm-objdump, and statistics of its inner loops.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lathe {

struct AmdInstruction {
  std::string text;  // "ds_read_b128 v[2:5], v1 offset:64"
  int64_t address = 0;
  int64_t target = -1;  // the target address of a branch, else -1
  bool is(const char* prefix) const { return text.rfind(prefix, 0) == 0; }
};
using AmdCode = std::vector<AmdInstruction>;

// The kernels by symbol. Takes about 20 ms. Throws with the message of llvm-objdump if it refuses the code object.
std::map<std::string, AmdCode> disassemble(const std::string& elf);

// Recognises the instructions that do the work a loop exists for.
using IsWork = std::function<bool(const AmdInstruction&)>;
bool is_matrix(const AmdInstruction& i);        // v_mfma_*, v_wmma_*
bool is_multiply_add(const AmdInstruction& i);  // of vector units: FMAs, dot products, integers too
bool is_load(const AmdInstruction& i);          // loads from global memory
// Whether it multiplies elements of the type: "f16", "bf16", "f32", "i8", "f8e4m3", "f8e5m2", or with block scales
// "mxf8e4m3", "mxf8e5m2", "mxf4e2m1", "f8e4m3_128".
bool is_matrix_of(const AmdInstruction& i, const std::string& type);
// The bytes that one lane moves in a load or store of global memory or LDS.
int64_t lane_bytes(const AmdInstruction& i);

// The innermost loop that does most of the work: no loop inside it may have half of its work. Returns the whole kernel
// if no loop does any work.
AmdCode inner_loop(const AmdCode& kernel, const IsWork& is_work);

// What one wave executes in one pass of the loop.
struct LoopCounts {
  int64_t all = 0, matrix = 0, vector = 0, scalar = 0, waits = 0, barriers = 0;
  int64_t quarter_rate = 0;              // vector instructions that multiply 32-bit integers
  int64_t multiply_adds = 0;             // vector instructions
  int64_t products = 0;                  // products per lane of the multiply_adds
  int64_t shared = 0, shared_bytes = 0;  // LDS: instructions, bytes per lane
  int64_t wide_shared_reads = 0;         // LDS reads of 16 bytes per lane
  int64_t loads = 0, wide_loads = 0;     // from global memory; those of 16 bytes per lane
  int64_t load_bytes = 0, stores = 0;    // bytes per lane; instructions
  int64_t in_flight = 0;                 // the most loads in flight at once, with overlapping passes
};
LoopCounts count(const AmdCode& loop);

}  // namespace lathe
