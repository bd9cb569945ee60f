// The machine code of AMD's kernels as llvm-objdump lists it, and what their inner loops are made of.
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
  int64_t target = -1;  // of a branch: an address
  bool is(const char* prefix) const { return text.rfind(prefix, 0) == 0; }
};
using AmdCode = std::vector<AmdInstruction>;

// Kernels by their symbols; throws what llvm-objdump has against the code object. ~20 ms.
std::map<std::string, AmdCode> disassemble(const std::string& elf);

// The kind of work that a loop is for, as a kernel's instructions show it.
using IsWork = std::function<bool(const AmdInstruction&)>;
bool is_matrix(const AmdInstruction& i);        // v_mfma_*, v_wmma_*
bool is_multiply_add(const AmdInstruction& i);  // FMAs of the vector units, dot products, integers' likewise
bool is_load(const AmdInstruction& i);          // from global memory
// Whether it multiplies elements of that type: "f16", "bf16", "f32", "i8", "f8e4m3", "f8e5m2".
bool is_matrix_of(const AmdInstruction& i, const std::string& type);
// Bytes that one lane moves: of a load or store, of global memory or LDS.
int64_t lane_bytes(const AmdInstruction& i);

// The innermost loop that does most of the work: a loop whose own loops have less than half of it. The whole
// kernel where no loop does any.
AmdCode inner_loop(const AmdCode& kernel, const IsWork& is_work);

// What one wave executes in one pass.
struct LoopCounts {
  int64_t all = 0, matrix = 0, vector = 0, scalar = 0, waits = 0, barriers = 0;
  int64_t quarter_rate = 0;              // of the vector instructions: products of 32-bit integers
  int64_t multiply_adds = 0;             // of the vector instructions
  int64_t products = 0;                  // that a lane's multiply_adds make
  int64_t shared = 0, shared_bytes = 0;  // LDS: instructions, a lane's bytes
  int64_t wide_shared_reads = 0;         // of 16 bytes a lane
  int64_t loads = 0, wide_loads = 0;     // from global memory; of 16 bytes a lane
  int64_t load_bytes = 0, stores = 0;    // a lane's
  int64_t in_flight = 0;                 // most loads that are under way at once, passes overlapping
};
LoopCounts count(const AmdCode& loop);

}  // namespace lathe
