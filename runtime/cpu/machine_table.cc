#include "runtime/cpu/machine_table.h"

#include "absl/strings/string_view.h"

namespace lathe {
namespace {

// Memory rates are channels * 8 bytes * transfers per second, from the vendors' product pages. Clocks are
// what all cores hold under vectors: "all core boost" of AMD's product pages where they name one (EPYC 9654,
// 9754, 9755; in virtual machines a 7003 3.1e9 to 3.3e9, 99 to 106 GFLOP/s, a 9004 3.55e9 to 3.65e9, 115 of
// 3.6e9 * 32 GFLOP/s, and a 9005 3.9e9, 248 of 3.9e9 * 64, whose core reads 40 to 44 GB/s), or was
// measured (an Emerald Rapids of 2.7e9, 173 to 177 GFLOP/s, whose core reads 19 to 24 GB/s, of
// one stream 11 to 13, of four 16 to 18), else a usual base
// clock. A core of a 7003 reads 16 to 21 GB/s, 8 rows side by side 17 and 18, fetched 0.5 to 4 KiB ahead 10.5
// to 14.
constexpr MachineRow kRows[] = {
    {"GenuineIntel", 6, 0x55, 0x55, "Skylake-SP, Cascade Lake", 2, 2, 128e9, "6 channels DDR4-2666", 12e9,
     2.5e9},
    {"GenuineIntel", 6, 0x6a, 0x6c, "Ice Lake-SP", 2, 2, 204.8e9, "8 channels DDR4-3200", 12e9, 2.4e9},
    {"GenuineIntel", 6, 0x8f, 0x8f, "Sapphire Rapids", 2, 2, 307.2e9, "8 channels DDR5-4800", 15e9, 2.0e9},
    {"GenuineIntel", 6, 0xcf, 0xcf, "Emerald Rapids", 2, 2, 358.4e9, "8 channels DDR5-5600", 21e9, 2.7e9, 0,
     0, 13e9},
    {"GenuineIntel", 6, 0xad, 0xae, "Granite Rapids", 2, 2, 614.4e9, "12 channels DDR5-6400", 15e9, 2.1e9},
    // Client cores with AVX-512 lack the second 512-bit multiplier.
    {"GenuineIntel", 6, 0x7d, 0x7e, "Ice Lake", 1, 2, 51.2e9, "2 channels DDR4-3200", 20e9, 1.3e9},
    {"GenuineIntel", 6, 0x8c, 0x8d, "Tiger Lake", 1, 2, 51.2e9, "2 channels DDR4-3200", 20e9, 2.6e9},
    {"GenuineIntel", 6, 0xa7, 0xa7, "Rocket Lake", 1, 2, 51.2e9, "2 channels DDR4-3200", 20e9, 3.5e9},
    {"GenuineIntel", 6, 0x97, 0x9a, "Alder Lake", 1, 2, 76.8e9, "2 channels DDR5-4800", 25e9, 3.2e9},
    {"GenuineIntel", 6, 0xb7, 0xbf, "Raptor Lake", 1, 2, 89.6e9, "2 channels DDR5-5600", 25e9, 3.4e9},
    // Zen 1 starts two 128-bit halves; Zen 4 passes 512-bit operations in two halves of 256.
    {"AuthenticAMD", 0x17, 0x01, 0x2f, "Zen 1", 1, 1, 170.6e9, "8 channels DDR4-2666", 18e9, 2.2e9},
    {"AuthenticAMD", 0x17, 0x31, 0x31, "Zen 2 EPYC", 1, 2, 204.8e9, "8 channels DDR4-3200", 20e9, 2.25e9},
    {"AuthenticAMD", 0x17, 0x60, 0x7f, "Zen 2", 1, 2, 51.2e9, "2 channels DDR4-3200", 25e9, 3.0e9},
    {"AuthenticAMD", 0x19, 0x00, 0x0f, "Zen 3 EPYC", 1, 2, 204.8e9, "8 channels DDR4-3200", 20e9, 3.2e9, 0,
     12e9},
    {"AuthenticAMD", 0x19, 0x10, 0x1f, "Zen 4 EPYC", 1, 2, 460.8e9, "12 channels DDR5-4800", 25e9, 3.55e9,
     35e9},
    {"AuthenticAMD", 0x19, 0x20, 0x5f, "Zen 3", 1, 2, 51.2e9, "2 channels DDR4-3200", 25e9, 3.4e9},
    {"AuthenticAMD", 0x19, 0x60, 0x7f, "Zen 4", 1, 2, 83.2e9, "2 channels DDR5-5200", 30e9, 4.2e9},
    {"AuthenticAMD", 0x19, 0xa0, 0xaf, "Zen 4c EPYC", 1, 2, 460.8e9, "12 channels DDR5-4800", 25e9, 3.1e9},
    {"AuthenticAMD", 0x1a, 0x00, 0x1f, "Zen 5 EPYC", 2, 2, 576e9, "12 channels DDR5-6000", 40e9, 3.9e9, 43e9},
    {"AuthenticAMD", 0x1a, 0x40, 0x4f, "Zen 5", 2, 2, 89.6e9, "2 channels DDR5-5600", 35e9, 4.0e9},
    {"ARM", 0, 0xd0c, 0xd0c, "Neoverse N1", 2, 2, 204.8e9, "8 channels DDR4-3200", 18e9, 2.5e9},
    {"ARM", 0, 0xd40, 0xd40, "Neoverse V1", 4, 4, 307.2e9, "8 channels DDR5-4800", 25e9, 2.6e9},
    {"ARM", 0, 0xd49, 0xd49, "Neoverse N2", 2, 2, 204.8e9, "8 channels DDR4-3200", 25e9, 2.75e9},
    {"ARM", 0, 0xd4f, 0xd4f, "Neoverse V2", 4, 4, 537.6e9, "12 channels DDR5-5600", 30e9, 2.8e9},
};

// An unknown processor is taken for a desktop.
constexpr MachineRow kDefault = {"",   0,    0, 0, "unknown processor", 1, 2, 51.2e9, "2 channels DDR4-3200",
                                 20e9, 2.5e9};

}  // namespace

const MachineRow& machine_row(const CpuIdentity& id) {
  for (const MachineRow& row : kRows) {
    if (id.vendor == row.vendor && id.family == row.family && id.model >= row.first_model &&
        id.model <= row.last_model) {
      return row;
    }
  }
  return kDefault;
}

}  // namespace lathe
