#include "runtime/cpu/machine_table.h"

#include <gtest/gtest.h>

namespace lathe {
namespace {

const MachineRow& row(const char* vendor, int32_t family, int32_t model) {
  CpuIdentity id;
  id.vendor = vendor;
  id.family = family;
  id.model = model;
  return machine_row(id);
}

TEST(MachineTable, KnowsServers) {
  EXPECT_STREQ(row("GenuineIntel", 6, 143).name, "Sapphire Rapids");
  EXPECT_STREQ(row("GenuineIntel", 6, 207).name, "Emerald Rapids");
  EXPECT_EQ(row("GenuineIntel", 6, 207).memory_bytes_per_second, 8.0 * 8 * 5600e6);
  EXPECT_EQ(row("AuthenticAMD", 0x19, 0x11).memory_bytes_per_second, 12.0 * 8 * 4800e6);
  EXPECT_EQ(row("ARM", 0, 0xd40).fma_units, 4);
}

// Products are priced by what cores hold under vectors, which on these is far from the base clock.
TEST(MachineTable, ServersHoldTheirBoostOnAllCores) {
  EXPECT_EQ(row("AuthenticAMD", 0x19, 0x01).clock_hz, 3.2e9);
  EXPECT_EQ(row("AuthenticAMD", 0x19, 0x11).clock_hz, 3.55e9);
  EXPECT_EQ(row("AuthenticAMD", 0x19, 0xa0).clock_hz, 3.1e9);
  EXPECT_EQ(row("AuthenticAMD", 0x1a, 0x02).clock_hz, 3.9e9);
}

TEST(MachineTable, WideMultipliers) {
  EXPECT_EQ(row("GenuineIntel", 6, 0x55).fma_units_512, 2);
  EXPECT_EQ(row("GenuineIntel", 6, 0x8c).fma_units_512, 1);
  EXPECT_EQ(row("AuthenticAMD", 0x19, 0x61).fma_units_512, 1);
  EXPECT_EQ(row("AuthenticAMD", 0x1a, 0x02).fma_units_512, 2);
}

// Where it was measured, and nowhere else.
TEST(MachineTable, LoopsAreHeldToARateOnZen4AndZen5Servers) {
  for (const MachineRow& server : {row("AuthenticAMD", 0x19, 0x11), row("AuthenticAMD", 0x1a, 0x02)})
    EXPECT_GT(server.pace_bytes_per_second, server.core_bytes_per_second) << server.name;
  EXPECT_EQ(row("AuthenticAMD", 0x19, 0x61).pace_bytes_per_second, 0);
  EXPECT_EQ(row("AuthenticAMD", 0x1a, 0x44).pace_bytes_per_second, 0);
  EXPECT_EQ(row("GenuineIntel", 6, 143).pace_bytes_per_second, 0);
}

TEST(MachineTable, FetchingAheadIsALossOnZen3Servers) {
  const MachineRow& zen3 = row("AuthenticAMD", 0x19, 0x01);
  EXPECT_GT(zen3.ahead_bytes_per_second, 0);
  EXPECT_LT(zen3.ahead_bytes_per_second, zen3.core_bytes_per_second);
  for (int32_t model : {0x11, 0x21, 0x61})
    EXPECT_EQ(row("AuthenticAMD", 0x19, model).ahead_bytes_per_second, 0);
}

TEST(MachineTable, UnknownProcessorsTakeTheDefault) {
  for (const MachineRow* r :
       {&row("GenuineIntel", 6, 1), &row("GenuineIntel", 5, 143), &row("Nobody", 6, 143)}) {
    EXPECT_STREQ(r->vendor, "");
    EXPECT_GE(r->fma_units, 1);
    EXPECT_GT(r->core_bytes_per_second, 0);
    EXPECT_GE(r->memory_bytes_per_second, r->core_bytes_per_second);
  }
}

}  // namespace
}  // namespace lathe
