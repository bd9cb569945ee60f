#include "elf.h"

#include "messages.h"
#include "system.h"

// "ELF for the Arm 64-bit Architecture" (IHI 0056) and the generic ELF specification.
struct Header {
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_headers, section_headers;
  uint32_t flags;
  uint16_t header_size, program_size, program_count, section_size, section_count, names;
};
struct Section {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t alignment, entry_size;
};
struct Symbol {
  uint32_t name;
  uint8_t info, other;
  uint16_t section;
  uint64_t value, size;
};
struct Relocation {
  uint64_t offset;
  uint32_t type, symbol;
  int64_t addend;
};
enum { kSymbolTable = 2, kRelocations = 4, kNoBits = 8, kAllocated = 2, kFunction = 2, kMachine = 183 };
enum {
  kAbs64 = 257,
  kPrel64 = 260,
  kPrel32 = 261,
  kAdrPage = 275,
  kAddLow12 = 277,
  kLoad8 = 278,
  kJump26 = 282,
  kCall26 = 283,
  kLoad16 = 284,
  kLoad32 = 285,
  kLoad64 = 286,
  kLoad128 = 299
};

static struct Section* sections_of(const struct LoadedObject* o) {
  return (struct Section*)(o->file + ((struct Header*)o->file)->section_headers);
}
static uint64_t up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

// Inserts `bits` bits of an immediate into the instruction, at bit `at`.
static void insert(void* where, uint64_t value, int at, int bits) {
  const uint32_t mask = ((1u << bits) - 1) << at;
  uint32_t* instruction = where;
  *instruction = (*instruction & ~mask) | ((uint32_t)(value << at) & mask);
}

static const char* relocate(const struct Relocation* r, char* place, uint64_t target) {
  const uint64_t p = (uint64_t)place, page = (target & ~0xfffull) - (p & ~0xfffull);
  switch (r->type) {
    case kAbs64: *(uint64_t*)place = target; return 0;
    case kPrel64: *(uint64_t*)place = target - p; return 0;
    case kPrel32: *(uint32_t*)place = (uint32_t)(target - p); return 0;
    case kAdrPage:
      insert(place, page >> 12 & 3, 29, 2);
      insert(place, page >> 14, 5, 19);
      return 0;
    case kAddLow12:
    case kLoad8: insert(place, target & 0xfff, 10, 12); return 0;
    case kLoad16: insert(place, (target & 0xfff) >> 1, 10, 12); return 0;
    case kLoad32: insert(place, (target & 0xfff) >> 2, 10, 12); return 0;
    case kLoad64: insert(place, (target & 0xfff) >> 3, 10, 12); return 0;
    case kLoad128: insert(place, (target & 0xfff) >> 4, 10, 12); return 0;
    case kJump26:
    case kCall26: insert(place, (target - p) >> 2, 0, 26); return 0;
    default: return "an unsupported relocation type";
  }
}

static const char* relocate_section(const struct LoadedObject* o, const struct Section* list) {
  struct Section* sections = sections_of(o);
  const struct Section* to = &sections[list->info];
  if (!(to->flags & kAllocated)) return 0;
  const struct Symbol* symbols = (const struct Symbol*)(o->file + sections[list->link].offset);
  const struct Relocation* r = (const struct Relocation*)(o->file + list->offset);
  for (uint64_t i = 0; i < list->size / sizeof *r; ++i) {
    const struct Symbol* s = &symbols[r[i].symbol];
    if (s->section == 0) return "an undefined symbol";
    if (s->section >= ((struct Header*)o->file)->section_count) return "a symbol without a section";
    const uint64_t target = sections[s->section].address + s->value + (uint64_t)r[i].addend;
    const char* error = relocate(&r[i], (char*)to->address + r[i].offset, target);
    if (error) return error;
  }
  return 0;
}

const char* load_object(const char* file, uint64_t bytes, struct LoadedObject* out) {
  const struct Header* header = (const struct Header*)file;
  if (bytes < sizeof *header || header->type != 1 || header->machine != kMachine)
    return "not a relocatable object of AArch64";
  out->file_bytes = up(bytes, kPage);
  out->file = map_pages(out->file_bytes, kRead | kWrite);
  __builtin_memcpy(out->file, file, bytes);

  struct Section* sections = sections_of(out);
  const uint64_t count = header->section_count;
  uint64_t size = 0;
  for (uint64_t i = 0; i < count; ++i)
    if (sections[i].flags & kAllocated) {
      size = up(size, sections[i].alignment ? sections[i].alignment : 1);
      sections[i].address = size;
      size += sections[i].size;
    }
  out->image_bytes = up(size + 1, kPage);
  out->image = map_pages(out->image_bytes, kRead | kWrite);
  for (uint64_t i = 0; i < count; ++i)
    if (sections[i].flags & kAllocated) {
      sections[i].address += (uint64_t)out->image;
      if (sections[i].type != kNoBits)
        __builtin_memcpy((char*)sections[i].address, out->file + sections[i].offset, sections[i].size);
    }
  for (uint64_t i = 0; i < count; ++i)
    if (sections[i].type == kRelocations) {
      const char* error = relocate_section(out, &sections[i]);
      if (error) return error;
    }
  protect_pages(out->image, out->image_bytes, kRead | kExecute);
  return 0;
}

void unload_object(struct LoadedObject* o) {
  if (o->image) unmap_pages(o->image, o->image_bytes);
  if (o->file) unmap_pages(o->file, o->file_bytes);
  o->image = o->file = 0;
}

static int equal(const char* a, const char* b) {
  while (*a && *a == *b) ++a, ++b;
  return *a == *b;
}

void* find_symbol(const struct LoadedObject* o, const char* name) {
  if (!o->image) return 0;
  const struct Section* sections = sections_of(o);
  for (uint64_t i = 0; i < ((struct Header*)o->file)->section_count; ++i) {
    if (sections[i].type != kSymbolTable) continue;
    const struct Symbol* symbols = (const struct Symbol*)(o->file + sections[i].offset);
    const char* names = o->file + sections[sections[i].link].offset;
    for (uint64_t s = 0; s < sections[i].size / sizeof *symbols; ++s)
      if ((symbols[s].info & 15) == kFunction && symbols[s].section != 0 &&
          equal(names + symbols[s].name, name))
        return (void*)(sections[symbols[s].section].address + symbols[s].value);
  }
  return 0;
}
