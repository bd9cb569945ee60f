#include "cache/use_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <unordered_set>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cache/file_io.h"
#include "cache/private_directory.h"
#include "cache/store_files.h"

namespace lathe {
namespace {

constexpr absl::string_view kGone = "00000000000000000000000000000000";
constexpr off_t kRewriteBytes = 256 << 10;  // about 7000 lines; a rewrite takes milliseconds, so it is rare
constexpr off_t kMostBytes = 64 << 20;      // of a larger journal, only the end is read

// Like an entry, the journal must be a regular file of ours that nobody else can write to.
bool is_trusted(int file, struct stat* s) {
  return file >= 0 && fstat(file, s) == 0 && S_ISREG(s->st_mode) && refusal_of(*s).empty();
}

uint64_t saturated_sum(uint64_t x, uint64_t y) {
  return x > std::numeric_limits<uint64_t>::max() - y ? std::numeric_limits<uint64_t>::max() : x + y;
}
void add(Use* to, uint64_t hits, uint64_t made) {
  to->hits = saturated_sum(to->hits, hits);
  to->made = saturated_sum(to->made, made);
}

std::string line_of(absl::string_view fingerprint, uint64_t hits, uint64_t made) {
  return absl::StrCat(fingerprint, " ", hits, " ", made, "\n");
}

UseTable parse(absl::string_view text) {
  UseTable table;
  uint64_t order = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    uint64_t hits = 0, made = 0;
    if (words.size() != 3 || !is_fingerprint(words[0]) || !absl::SimpleAtoi(words[1], &hits) ||
        !absl::SimpleAtoi(words[2], &made))
      continue;
    Use& use = words[0] == kGone ? table.gone : table.entries[std::string(words[0])];
    add(&use, hits, made);
    use.order = ++order;
  }
  return table;
}

UseTable read_open(int file, const struct stat& s) {
  const off_t skipped = std::max<off_t>(0, s.st_size - kMostBytes);
  std::string text(static_cast<size_t>(s.st_size - skipped), '\0');
  if (!read_at(file, static_cast<uint64_t>(skipped), &text).ok()) return {};
  return parse(text);
}

// Writes one line per entry or record, least recently used first. The counts of removed entries are added up
// in one line.
std::string rewritten(UseTable table, const std::vector<std::string>& names) {
  std::unordered_set<std::string> present, records;
  for (const std::string& name : names) {
    if (is_entry(name)) present.insert(std::string(fingerprint_of(name)));
    if (is_record_file(name)) records.insert(std::string(fingerprint_of(name)));
  }
  std::vector<std::pair<uint64_t, std::string>> lines;
  for (const auto& [fingerprint, use] : table.entries) {
    if (present.count(fingerprint) != 0)
      lines.emplace_back(use.order, line_of(fingerprint, use.hits, use.made));
    else if (records.count(fingerprint) != 0)
      lines.emplace_back(use.order, line_of(fingerprint, 0, 0));  // a record has no counts
    else
      add(&table.gone, use.hits, use.made);
  }
  std::sort(lines.begin(), lines.end());
  std::string text = line_of(kGone, table.gone.hits, table.gone.made);
  for (const auto& [order, line] : lines) text += line;
  return text;
}

// Only one process rewrites at a time; others do not wait. Without file locks several may do it, and the last
// one wins, which is better than a journal that grows for ever.
void rewrite(int directory, int file) {
  struct stat s;
  if (!lock_file(file, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) return;
  if (fstat(file, &s) != 0) return;
  const absl::StatusOr<std::vector<std::string>> names = names_in(directory);
  if (!names.ok()) return;
  const std::string text = rewritten(read_open(file, s), *names);
  (void)publish_file(directory, kGone, kUsesName, text,
                     Durability::kWhole);  // if it fails, the old journal stays
}

}  // namespace

Use UseTable::of(absl::string_view fingerprint) const {
  const auto found = entries.find(std::string(fingerprint));
  return found == entries.end() ? Use() : found->second;
}

void note_use(int directory, absl::string_view fingerprint, UseKind kind) {
  const FileDescriptor file =
      open_file(directory, kUsesName, O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  struct stat s;
  if (!is_trusted(file.get(), &s)) return;
  const std::string line =
      line_of(fingerprint, kind == UseKind::kHit ? 1 : 0, kind == UseKind::kMade ? 1 : 0);
  if (!write_whole(file.get(), line).ok()) return;
  const off_t after = s.st_size + static_cast<off_t>(line.size());
  if (after / kRewriteBytes != s.st_size / kRewriteBytes) rewrite(directory, file.get());
}

UseTable read_uses(int directory) {
  const FileDescriptor file = open_file(directory, kUsesName, O_RDONLY | O_NOFOLLOW);
  struct stat s;
  return is_trusted(file.get(), &s) ? read_open(file.get(), s) : UseTable();
}

}  // namespace lathe
