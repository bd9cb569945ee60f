#include "core/artifact.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace lathe {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "artifacts are little-endian, so the host must be too");

constexpr char kMagic[] = "LATHEART";
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t format;
  uint64_t recipe_size, metadata_size, code_size;
};
static_assert(sizeof(Header) == 40, "the artifact header has no padding");

absl::Status bad(absl::string_view cause) {
  return absl::InvalidArgumentError(absl::StrCat("artifact: ", cause));
}

}  // namespace

absl::string_view name_of(CodeFormat f) {
  switch (f) {
    case CodeFormat::kElfObject: return "elf";
    case CodeFormat::kPtx: return "ptx";
    case CodeFormat::kCubin: return "cubin";
    case CodeFormat::kHsaco: return "hsaco";
    case CodeFormat::kNone: return "none";
    case CodeFormat::kSpirv: return "spirv";
  }
  return "unknown";
}

std::string serialize(const Artifact& a) {
  const std::string recipe = canonical_text(to_json(a.recipe));
  Header header;
  memcpy(header.magic, kMagic, sizeof(header.magic));
  header.version = kVersion;
  header.format = static_cast<uint32_t>(a.format);
  header.recipe_size = recipe.size();
  header.metadata_size = a.metadata.size();
  header.code_size = a.code.size();
  return absl::StrCat(absl::string_view(reinterpret_cast<const char*>(&header), sizeof(header)), recipe,
                      a.metadata, a.code);
}

absl::StatusOr<Artifact> parse_artifact(absl::string_view bytes) {
  Header header;
  if (bytes.size() < sizeof(header)) return bad(absl::StrCat(bytes.size(), " bytes are less than a header"));
  memcpy(&header, bytes.data(), sizeof(header));
  if (memcmp(header.magic, kMagic, sizeof(header.magic)) != 0) return bad("wrong magic");
  if (header.version != kVersion)
    return bad(absl::StrCat("version ", header.version, ", expected ", kVersion));
  if (header.format < static_cast<uint32_t>(CodeFormat::kElfObject) ||
      header.format > static_cast<uint32_t>(CodeFormat::kSpirv))
    return bad(absl::StrCat("unknown code format ", header.format));

  absl::string_view rest = bytes.substr(sizeof(header));
  // Each length is checked against the remaining bytes, so no sum of lengths can overflow.
  const auto take = [&rest](uint64_t size, absl::string_view* part) {
    if (size > rest.size()) return false;
    *part = rest.substr(0, size);
    rest.remove_prefix(size);
    return true;
  };
  absl::string_view recipe, metadata, code;
  if (!take(header.recipe_size, &recipe) || !take(header.metadata_size, &metadata) ||
      !take(header.code_size, &code) || !rest.empty())
    return bad(absl::StrCat("lengths ", header.recipe_size, " + ", header.metadata_size, " + ",
                            header.code_size, " do not add up to ", bytes.size() - sizeof(header)));

  Artifact a;
  a.format = static_cast<CodeFormat>(header.format);
  LATHE_ASSIGN_OR_RETURN(const Json json, parse_json(recipe, "artifact's recipe"));
  LATHE_ASSIGN_OR_RETURN(a.recipe, recipe_from_json(json));
  a.metadata = std::string(metadata);
  a.code = std::string(code);
  return a;
}

}  // namespace lathe
