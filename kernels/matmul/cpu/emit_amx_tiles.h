// AMX's instructions on the tile registers (Intel SDM, palette 1).
#pragma once

#include <array>

#include "compiler/emit.h"

namespace lathe::emit {

struct AmxTiles {
  static constexpr int64_t kRegisters = 8;
  static constexpr int64_t kSide = 16;        // lines of a whole tile; words of a line
  static constexpr int64_t kTileWords = 256;  // of 32 bits

  // A tile in memory. `pitch`: bytes from one line to the next.
  struct Place {
    Value memory, at, pitch;
  };
  // The size of each register: bytes of a line, and lines.
  struct Size {
    uint8_t bytes = 64, lines = 16;
  };

  Emit& e;

  // Configures the registers; the configuration takes kSide words of `memory` from its beginning.
  void configure(Value memory, const std::array<Size, kRegisters>& sizes) const;
  void release() const { call("llvm.x86.tilerelease", {}); }
  void load(int64_t tile, const Place& p) const { move("llvm.x86.tileloadd64", tile, p); }
  void load_streamed(int64_t tile, const Place& p) const { move("llvm.x86.tileloaddt164", tile, p); }
  void store(int64_t tile, const Place& p) const { move("llvm.x86.tilestored64", tile, p); }
  void zero(int64_t tile) const { call("llvm.x86.tilezero", {number(tile)}); }
  // sum += a * b by the instruction `product`.
  void multiply(const char* product, int64_t sum, int64_t a, int64_t b) const {
    call(product, {number(sum), number(a), number(b)});
  }

 private:
  Value number(int64_t tile) const;
  void call(const char* name, ValueRange operands) const;
  void move(const char* name, int64_t tile, const Place& p) const;
};

}  // namespace lathe::emit
