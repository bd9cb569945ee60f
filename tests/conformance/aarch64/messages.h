/* The messages between a test and the runner. They are plain structs, because both sides are little-endian with
 * 64-bit words. */
#ifndef LATHE_TESTS_AARCH64_MESSAGES_H
#define LATHE_TESTS_AARCH64_MESSAGES_H

#include <stddef.h>
#include <stdint.h>

enum { kPage = 4096, kTextBytes = 128, kMostRegions = 12, kMostSteps = 4, kMostArgumentBytes = 512 };

enum CommandKind { kLoad = 1, kRun = 2 };
/* kLoad: an object of `bytes` bytes follows, and the runner sends an Answer. kRun: a Run follows. */
struct Command {
  uint64_t kind, bytes;
};

struct Answer {
  uint64_t failed;
  char text[kTextBytes];
};

/* The runner fills kScratch; the test sends the content of the others; the runner returns that of kOutput. */
enum RegionKind { kInput = 1, kOutput = 2, kScratch = 3 };
/* Whole pages of the memory of the test's process. */
struct Region {
  uint64_t address, bytes, kind;
};

/* A launch. `regions` Regions follow, each with its content. The runner sends an Answer and, on success, the content
 * of every output. */
struct Run {
  uint64_t regions, steps, pointers /* the first words of the argument block */, argument_bytes;
  uint64_t arguments[kMostArgumentBytes / 8];
  struct {
    char symbol[256];
    int64_t tasks;
  } step[kMostSteps];
};

#endif
