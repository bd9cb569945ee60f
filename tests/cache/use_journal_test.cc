#include "cache/use_journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "cache/file_io.h"
#include "cache_fixture.h"

namespace lathe {
namespace {

class UseJournalTest : public CacheFixture {
 protected:
  void SetUp() override {
    CacheFixture::SetUp();
    std::filesystem::create_directory(directory_);
    std::filesystem::permissions(directory_, std::filesystem::perms::owner_all);
    open_ = open_file(AT_FDCWD, directory_, O_RDONLY | O_DIRECTORY);
    ASSERT_TRUE(open_.valid());
  }
  void note(int n, UseKind kind) { note_use(open_.get(), key(n).fingerprint, kind); }
  Use of(int n) { return read_uses(open_.get()).of(key(n).fingerprint); }

  FileDescriptor open_;
};

TEST_F(UseJournalTest, CountsAndOrdersUses) {
  EXPECT_EQ(of(1).order, 0u) << "never seen";
  note(1, UseKind::kMade);
  note(2, UseKind::kMade);
  note(3, UseKind::kMade);
  note(1, UseKind::kHit);
  note(1, UseKind::kHit);
  note(2, UseKind::kHit);
  EXPECT_EQ(of(1).hits, 2u);
  EXPECT_EQ(of(1).made, 1u);
  EXPECT_EQ(of(3).hits, 0u);
  EXPECT_LT(of(3).order, of(1).order);
  EXPECT_LT(of(1).order, of(2).order);
}

TEST_F(UseJournalTest, TornLineLosesItselfAndTheNextLine) {
  note(1, UseKind::kMade);
  write_file(journal(), read_file(journal()) + key(2).fingerprint.substr(0, 9));
  note(3, UseKind::kMade);  // is appended to the torn line
  note(4, UseKind::kMade);
  EXPECT_EQ(of(1).made, 1u);
  EXPECT_EQ(of(2).made, 0u);
  EXPECT_EQ(of(3).made, 0u);
  EXPECT_EQ(of(4).made, 1u);
}

// The journal stays small and keeps its sums and order.
TEST_F(UseJournalTest, RewriteKeepsTheSums) {
  constexpr int kEntries = 20, kRounds = 1000;
  for (int n = 0; n < kEntries; n += 2) write_file(entry_path(key(n)), "there");  // the odd ones were removed
  for (int round = 0; round < kRounds; ++round)
    for (int n = 0; n < kEntries; ++n) note(n, round == 0 ? UseKind::kMade : UseKind::kHit);
  EXPECT_LT(std::filesystem::file_size(journal()), size_t{400} << 10);
  const UseTable table = read_uses(open_.get());
  uint64_t hits = table.gone.hits, made = table.gone.made;
  for (int n = 0; n < kEntries; ++n) {
    const Use use = table.of(key(n).fingerprint);
    hits += use.hits;
    made += use.made;
    if (n % 2 != 0) continue;
    EXPECT_EQ(use.hits, kRounds - 1u) << n;
    EXPECT_EQ(use.made, 1u) << n;
    if (n > 0) EXPECT_LT(table.of(key(n - 2).fingerprint).order, use.order);
  }
  EXPECT_EQ(hits, uint64_t{kEntries} * (kRounds - 1));
  EXPECT_EQ(made, uint64_t{kEntries});
  EXPECT_GT(table.gone.hits, 0u);
}

// A rewrite keeps the order of records and never counts them, whether they exist or were removed.
TEST_F(UseJournalTest, RewriteKeepsTheOrderOfRecords) {
  const std::string record = directory_ + "/" + key(2).fingerprint + ".record";
  write_file(record, "there");
  for (const int n : {1, 3}) write_file(entry_path(key(n)), "there");
  note(1, UseKind::kMade);
  note(2, UseKind::kUncounted);
  note(3, UseKind::kMade);
  write_file(journal(),
             read_file(journal()) + key(2).fingerprint + " 5 1\n");  // as another version would write it
  note(3, UseKind::kHit);
  rewrite_at_next_note();
  note(1, UseKind::kHit);
  ASSERT_LT(std::filesystem::file_size(journal()), 1000u);
  EXPECT_NE(of(2).order, 0u);
  EXPECT_LT(of(2).order, of(3).order);
  EXPECT_LT(of(3).order, of(1).order);
  EXPECT_EQ(of(2).hits + of(2).made, 0u);
  std::filesystem::remove(record);
  note(2, UseKind::kUncounted);
  rewrite_at_next_note();
  note(1, UseKind::kHit);
  ASSERT_LT(std::filesystem::file_size(journal()), 1000u);
  const UseTable table = read_uses(open_.get());
  EXPECT_EQ(of(2).order, 0u);
  EXPECT_EQ(table.gone.hits + table.gone.made, 0u);
  EXPECT_EQ(of(1).hits, 2u);
}

TEST_F(UseJournalTest, CountsSaturate) {
  write_file(journal(), key(1).fingerprint + " 18446744073709551615 1\n" + key(1).fingerprint + " 7 1\n");
  std::filesystem::permissions(journal(),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  EXPECT_EQ(of(1).hits, ~uint64_t{0});
  EXPECT_EQ(of(1).made, 2u);
}

}  // namespace
}  // namespace lathe
