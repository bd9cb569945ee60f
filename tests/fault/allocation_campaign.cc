#include "allocation_campaign.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "failing_allocations.h"

namespace lathe::fault {
namespace {

constexpr int64_t kMost = 1000000;  // more than any call makes

std::set<std::string> tried_so_far;
int64_t injected = 0;

bool is_long() {
  const char* campaign = std::getenv("LATHE_FAULT_CAMPAIGN");
  return campaign != nullptr && strcmp(campaign, "long") == 0;
}

int64_t after(int64_t n) {
  constexpr int64_t kAll = 24, kPart = 8;
  static const bool every = is_long();
  return every || n < kAll ? n + 1 : n + n / kPart;
}

bool says_out_of_memory(lathe_status status) {
  return status == LATHE_OUT_OF_MEMORY && (strstr(lathe_last_error(), "memory") != nullptr ||
                                           strcmp(lathe_last_error(), "OUT_OF_MEMORY") == 0);
}

// Fails each allocation in turn, in one manner. Returns false if a check failed.
bool try_one(const Tried& tried, Fails how, int64_t* calls, int64_t* refused) {
  const char* const manner = how == Fails::kOnce ? "" : " and all after it";
  for (int64_t n = 1; n < kMost; n = tried.every ? n + 1 : after(n)) {
    tried.prepare();
    fail_allocation(n, how);
    const lathe_status status = tried.call();
    tried.settle();
    const int64_t failed = stop_failing();
    injected += failed;
    if (failed == 0) {
      EXPECT_EQ(status, LATHE_OK) << tried.function << ": " << lathe_last_error();
      EXPECT_TRUE(tried.right()) << tried.function << " " << tried.what;
      return true;
    }
    ++*calls;
    *refused += status != LATHE_OK;
    EXPECT_TRUE(status == LATHE_OK ? tried.right() : says_out_of_memory(status))
        << tried.function << " " << tried.what << ", allocation " << n << manner << ": "
        << lathe_status_name(status) << ": " << lathe_last_error();
    if (testing::Test::HasFailure()) return false;
  }
  ADD_FAILURE() << tried.function << " " << tried.what << " makes " << kMost << " allocations";
  return false;
}

}  // namespace

void try_allocations(const Tried& tried) {
  tried_so_far.insert(tried.function);
  const int64_t before = injected;
  int64_t calls = 0, refused = 0;
  if (!try_one(tried, Fails::kOnce, &calls, &refused) ||
      !try_one(tried, Fails::kFromThenOn, &calls, &refused))
    return;
  tried.prepare();
  EXPECT_EQ(tried.call(), LATHE_OK) << tried.function << " afterwards: " << lathe_last_error();
  tried.settle();
  EXPECT_TRUE(tried.right()) << tried.function << " " << tried.what << " afterwards";
  std::printf("%-34s %-22s %6lld calls short of memory, %6lld refused; %8lld allocations failed\n",
              tried.function, tried.what, static_cast<long long>(calls), static_cast<long long>(refused),
              static_cast<long long>(injected - before));
}

const std::set<std::string>& tried_functions() { return tried_so_far; }
int64_t injected_failures() { return injected; }

std::set<std::string> exported_functions(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::set<std::string> names;
  Elf64_Ehdr header;
  if (bytes.size() < sizeof(header)) return names;
  memcpy(&header, bytes.data(), sizeof(header));
  const auto section = [&](size_t i) {
    Elf64_Shdr s;
    memcpy(&s, &bytes.at(header.e_shoff + i * sizeof(s)), sizeof(s));
    return s;
  };
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr symbols = section(i);
    if (symbols.sh_type != SHT_DYNSYM) continue;
    const Elf64_Shdr strings = section(symbols.sh_link);
    for (size_t at = 0; at < symbols.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      memcpy(&symbol, &bytes.at(symbols.sh_offset + at), sizeof(symbol));
      if (symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
        names.insert(&bytes.at(strings.sh_offset + symbol.st_name));
    }
  }
  return names;
}

}  // namespace lathe::fault
