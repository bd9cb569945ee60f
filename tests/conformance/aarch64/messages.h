/* What a test and the runner tell each other, as plain structs: both sides are little-endian with 64-bit
 * words. */
#ifndef LATHE_TESTS_AARCH64_MESSAGES_H
#define LATHE_TESTS_AARCH64_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

enum { kPage = 4096, kTextBytes = 128, kMostRegions = 12, kMostSteps = 4, kMostArgumentBytes = 256 };

enum CommandKind { kLoad = 1, kRun = 2 };
/* kLoad: `bytes` of an object follow, and an Answer comes back. kRun: a Run follows. */
struct Command {
  uint64_t kind, bytes;
};

struct Answer {
  uint64_t failed;
  char text[kTextBytes];
};

/* kScratch is filled by the runner, the others' content follows; kOutput's comes back. */
enum RegionKind { kInput = 1, kOutput = 2, kScratch = 3 };
/* Whole pages of the test's memory. */
struct Region {
  uint64_t address, bytes, kind;
};

/* A launch: `regions` Regions follow, each with its content. Then an Answer comes back and, unless it failed,
 * the content of every output. */
struct Run {
  uint64_t regions, steps, pointers /* the argument block's first words */, argument_bytes;
  uint64_t arguments[kMostArgumentBytes / 8];
  struct {
    char symbol[256];
    int64_t tasks;
  } step[kMostSteps];
};

#endif
