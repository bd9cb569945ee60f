// Runs CPU kernel objects on AArch64, under qemu-aarch64, for a test that compiles them on another machine. It is a
// freestanding static program that makes system calls itself, so it needs no C library for AArch64.
//
// Commands arrive on standard input, answers go to standard output (messages.h). Operands are placed between
// inaccessible pages, at the same offset within a page as in the test's process; inputs are read-only. A fault ends
// the process, and the test detects that.
#include "elf.h"
#include "messages.h"
#include "system.h"

// memcpy and memset for calls that the compiler inserts. -fno-builtin keeps it from inserting one into these bodies.
void* memcpy(void* to, const void* from, size_t n) {
  for (size_t i = 0; i < n; ++i) ((char*)to)[i] = ((const char*)from)[i];
  return to;
}
void* memset(void* to, int value, size_t n) {
  for (size_t i = 0; i < n; ++i) ((char*)to)[i] = (char)value;
  return to;
}

// Memory of `bytes` bytes (a multiple of kPage) between two inaccessible pages.
static char* guarded(uint64_t bytes) {
  char* all = map_pages(bytes + 2 * kPage, kNoAccess);
  protect_pages(all + kPage, bytes, kRead | kWrite);
  return all + kPage;
}
static void release(char* inner, uint64_t bytes) { unmap_pages(inner - kPage, bytes + 2 * kPage); }

static struct LoadedObject object;

static void answer(const char* error) {
  struct Answer a = {0};
  if (error) {
    a.failed = 1;
    for (int i = 0; error[i] && i + 1 < kTextBytes; ++i) a.text[i] = error[i];
  }
  write_all(&a, sizeof a);
}

static void load(uint64_t bytes) {
  unload_object(&object);
  const uint64_t room = (bytes + kPage - 1) / kPage * kPage;
  char* file = map_pages(room, kRead | kWrite);
  read_all(file, bytes);
  answer(load_object(file, bytes, &object));
  unmap_pages(file, room);
}

struct Placed {
  struct Region region;
  char* memory;
};

static uint64_t translated(uint64_t address, const struct Placed* placed, uint64_t regions) {
  if (address == 0) return 0;
  for (uint64_t i = 0; i < regions; ++i)
    if (address - placed[i].region.address < placed[i].region.bytes)
      return (uint64_t)placed[i].memory + (address - placed[i].region.address);
  fail("a pointer of the argument block is not in any region");
  return 0;
}

static void run(const struct Run* r) {
  struct Placed placed[kMostRegions];
  if (r->regions > kMostRegions || r->steps > kMostSteps || r->argument_bytes > sizeof(r->arguments))
    fail("a launch with too many regions, steps or arguments");
  for (uint64_t i = 0; i < r->regions; ++i) {
    struct Placed* p = &placed[i];
    read_all(&p->region, sizeof p->region);
    p->memory = guarded(p->region.bytes);
    if (p->region.kind == kScratch)
      memset(p->memory, 0xff, p->region.bytes);  // NaN: reading before writing spoils the result
    else
      read_all(p->memory, p->region.bytes);
    if (p->region.kind == kInput) protect_pages(p->memory, p->region.bytes, kRead);
  }
  uint64_t arguments[kMostArgumentBytes / 8];
  memcpy(arguments, r->arguments, sizeof arguments);
  for (uint64_t i = 0; i < r->pointers; ++i) arguments[i] = translated(arguments[i], placed, r->regions);

  const char* error = 0;
  for (uint64_t s = 0; s < r->steps && !error; ++s) {
    typedef void (*Task)(const void*, int64_t);
    Task task = (Task)find_symbol(&object, r->step[s].symbol);
    if (!task) {
      error = "the object has no such symbol";
      break;
    }
    // The tasks of a step may run in any order; here the last one runs first.
    for (int64_t t = r->step[s].tasks; t-- > 0;) task(arguments, t);
  }
  answer(error);
  for (uint64_t i = 0; i < r->regions; ++i) {
    if (!error && placed[i].region.kind == kOutput) write_all(placed[i].memory, placed[i].region.bytes);
    release(placed[i].memory, placed[i].region.bytes);
  }
}

static void serve(void) {
  for (;;) {
    struct Command command;
    read_all(&command, sizeof command);  // ends the process at the end of the input
    if (command.kind == kLoad) load(command.bytes);
    if (command.kind == kRun) {
      static struct Run r;
      read_all(&r, sizeof r);
      run(&r);
    }
  }
}

void _start(void) { serve(); }
