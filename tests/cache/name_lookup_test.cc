// Host name resolution, with a replaced getaddrinfo that hangs on request.
#include "cache/name_lookup.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "remote_fixture.h"

namespace {

std::atomic<bool> stuck{false};
std::atomic<int> looked_up{0};

}  // namespace

extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* hints, addrinfo** found) {
  static const auto real = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if ((hints->ai_flags & AI_NUMERICHOST) != 0) return real(host, port, hints, found);
  ++looked_up;
  if (std::strcmp(host, "slow.invalid") != 0) return EAI_NONAME;
  while (stuck) usleep(1000);
  return real("127.0.0.1", port, hints, found);
}

namespace lathe {
namespace {

using testing::HasSubstr;

Deadline in_seconds(double seconds) {
  return Deadline::clock::now() +
         std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(seconds));
}

TEST(NameLookup, NumericAddressesNeedNoLookup) {
  looked_up = 0;
  NameLookup names;
  for (const char* host : {"127.0.0.1", "::1"}) {
    const auto found = names.find(host, "6379", in_seconds(0));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_NE((*found)->ai_addr, nullptr);
  }
  EXPECT_EQ(looked_up, 0);
}

TEST(NameLookup, ErrorNamesTheUnknownHost) {
  const absl::Status status = NameLookup().find("none.invalid", "1", in_seconds(30)).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("none.invalid: "));
}

TEST(NameLookup, SlowLookupStopsAtTheDeadlineAndRunsOnce) {
  looked_up = 0;
  stuck = true;
  NameLookup names;
  for (int i = 0; i < 3; ++i) {
    const absl::Status status = names.find("slow.invalid", "6379", in_seconds(0.05)).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  }
  stuck = false;
  const auto found = names.find("slow.invalid", "6379", in_seconds(30));
  ASSERT_TRUE(found.ok()) << found.status();
  const auto* address = reinterpret_cast<const sockaddr_in*>((*found)->ai_addr);
  EXPECT_EQ(address->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_EQ(address->sin_port, htons(6379));
  EXPECT_EQ(looked_up, 1);
}

TEST_F(RemoteTest, UnresolvedNameCostsTheConnectTimeOnce) {
  const auto calls = [&](const std::string& name, const std::string& server) {
    const auto cache = machine(name, server);
    for (int k = 0; k < 20; ++k) EXPECT_TRUE(serves(*cache, key(k), CacheOutcome::kCompiled));
  };
  const double alone = seconds_of([&] { calls("alone", ""); });
  stuck = true;
  const double took = seconds_of([&] { calls("m", "redis://slow.invalid:6379"); });
  stuck = false;
  EXPECT_GE(took, RemoteStore::kConnectSeconds);
  EXPECT_LT(took, granted(RemoteStore::kConnectSeconds, alone));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("slow.invalid: its name is not resolved in time"));
}

}  // namespace
}  // namespace lathe
