// The Linux system calls of AArch64 that the runner needs. A call that fails ends the process.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { kNoAccess = 0, kRead = 1, kWrite = 2, kExecute = 4 };

void fail(const char* text) __attribute__((noreturn));
void read_all(void* data, uint64_t bytes);
void write_all(const void* data, uint64_t bytes);
char* map_pages(uint64_t bytes, int access);
void protect_pages(void* pages, uint64_t bytes, int access);
void unmap_pages(void* pages, uint64_t bytes);
