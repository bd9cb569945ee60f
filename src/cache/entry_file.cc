#include "cache/entry_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "absl/strings/str_cat.h"

namespace lathe {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "entries are little-endian, so the host must be too");

constexpr char kMagic[] = "LATHECCH";
constexpr uint32_t kSchema = 1;

struct Header {
  char magic[8];
  uint32_t schema;
  uint32_t zero;
  uint64_t key_size, payload_size;
  unsigned char checksum[16];
};
static_assert(sizeof(Header) == 48 && offsetof(Header, checksum) == 32, "the entry header has no padding");

// `rest`: everything after the header.
XXH128_canonical_t checksum_of(const Header& header, absl::string_view rest) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, &header, offsetof(Header, checksum));
  XXH3_128bits_update(&state, rest.data(), rest.size());
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
  return canonical;
}

absl::Status defect(absl::string_view cause) { return absl::DataLossError(cause); }

}  // namespace

std::string make_entry(absl::string_view key_text, absl::string_view payload) {
  Header header = {};
  memcpy(header.magic, kMagic, sizeof(header.magic));
  header.schema = kSchema;
  header.key_size = key_text.size();
  header.payload_size = payload.size();
  std::string bytes;
  bytes.reserve(sizeof(header) + key_text.size() + payload.size());
  absl::StrAppend(&bytes, absl::string_view(reinterpret_cast<const char*>(&header), sizeof(header)), key_text,
                  payload);
  const XXH128_canonical_t checksum = checksum_of(header, absl::string_view(bytes).substr(sizeof(header)));
  memcpy(&bytes[offsetof(Header, checksum)], checksum.digest, sizeof(header.checksum));
  return bytes;
}

absl::StatusOr<EntryView> parse_entry(absl::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof(header))
    return defect(absl::StrCat(bytes.size(), " bytes are less than a header"));
  memcpy(&header, bytes.data(), sizeof(header));
  if (memcmp(header.magic, kMagic, sizeof(header.magic)) != 0) return defect("wrong magic");
  if (header.schema != kSchema) return defect(absl::StrCat("schema ", header.schema, ", expected ", kSchema));
  const absl::string_view rest = bytes.substr(sizeof(header));
  // Compared by subtraction: the sum of two hostile lengths could wrap.
  if (header.key_size > rest.size() || header.payload_size != rest.size() - header.key_size)
    return defect(absl::StrCat("lengths ", header.key_size, " + ", header.payload_size, " do not add up to ",
                               rest.size()));
  const XXH128_canonical_t checksum = checksum_of(header, rest);
  if (memcmp(checksum.digest, header.checksum, sizeof(header.checksum)) != 0) return defect("wrong checksum");
  return EntryView{rest.substr(0, header.key_size), rest.substr(header.key_size)};
}

}  // namespace lathe
