#include "core/manifest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <new>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "core/products.h"

namespace lathe {
namespace {

constexpr int kVersion = 1;
constexpr size_t kMostBytes = 64u << 20;
constexpr size_t kMostEntries = 100000;
constexpr int32_t kMostSplits = 65535;
// The fields of an entry that are not fields of the class.
constexpr const char* kMMax = "m_max";
constexpr const char* kName = "name";
constexpr const char* kSplitK = "split_k";
constexpr const char* kCandidate = "candidate";
constexpr const char* kGroups = "groups";
constexpr const char* kSlots = "slots";
constexpr const char* kKept = "kept";
constexpr const char* kText = "text";      // the program of an elementwise op
constexpr const char* kDigest = "digest";  // a field of the manifest, not of an entry
// The fields that an entry with "m_max" must not have, because it covers all their values.
constexpr const char* kOfOneClass[] = {"m_lo", "m_hi", "row_lo", "row_hi", "alignment"};

absl::Status wrong(const std::string& cause) { return absl::InvalidArgumentError(cause); }

absl::Status check_rows(const ProblemClass& c) {
  const Bucket rows = {c.m_lo, c.m_hi};
  if (has_open_rows(c.op) || c.alignment == Alignment::kByte) {
    if (rows == Bucket()) return absl::OkStatus();
  } else if (rows == m_bucket(c.m_lo)) {
    return absl::OkStatus();
  }
  return wrong(absl::StrCat("\"m_lo\", \"m_hi\": [", c.m_lo, ", ", c.m_hi,
                            "] is not a bucket of M of this class; use \"m_max\" for all buckets"));
}

// A field that the op does not use must be absent. Otherwise two texts could describe the same class.
absl::Status expect_absent(const char* field, bool absent) {
  return absent ? absl::OkStatus() : wrong(absl::StrCat("\"", field, "\": this op has no such field"));
}

absl::Status check_argmax(const ProblemClass& c) {
  LATHE_RETURN_IF_ERROR(expect_absent("b", c.b == DType::kNone));
  LATHE_RETURN_IF_ERROR(expect_absent("n", c.n == 0));
  LATHE_RETURN_IF_ERROR(expect_absent("k", c.k == 0));
  LATHE_RETURN_IF_ERROR(expect_absent("trans_a", c.trans_a == 0));
  LATHE_RETURN_IF_ERROR(expect_absent("trans_b", c.trans_b == 0));
  LATHE_RETURN_IF_ERROR(expect_absent("bias", c.bias == DType::kNone));
  LATHE_RETURN_IF_ERROR(expect_absent("math", c.math == Math::kStrict));
  LATHE_RETURN_IF_ERROR(expect_absent("scale_a", c.scale_a == Scale::kNone));
  LATHE_RETURN_IF_ERROR(expect_absent("scale_b", c.scale_b == Scale::kNone));
  LATHE_RETURN_IF_ERROR(expect_absent("zero_a", c.zero_a == 0));
  LATHE_RETURN_IF_ERROR(expect_absent("zero_b", c.zero_b == Scale::kNone));
  LATHE_RETURN_IF_ERROR(expect_absent("packed_b", c.packed_b == 0));
  LATHE_RETURN_IF_ERROR(expect_absent("logits", c.logits == DType::kNone));
  if (c.dependent_launch == DependentLaunch::kConstantB)
    return wrong("\"dependent_launch\": 2 needs a constant B, and argmax has no B");
  const Bucket row = {c.row_lo, c.row_hi};
  if (c.row_lo >= 1 && row == row_bucket(c.row_lo)) return absl::OkStatus();
  return wrong(absl::StrCat("\"row_lo\", \"row_hi\": [", c.row_lo, ", ", c.row_hi,
                            "] is not a bucket of row lengths"));
}

// What no grouped product has. The rows of one with a gate are multiplied by an f32 residual.
absl::Status check_grouped(const ProblemClass& c) {
  const auto refused = [&](const char* field, const char* reason) {
    return wrong(
        absl::StrCat("\"", field, "\": a grouped product (\"rows\": ", name_of(c.rows), ") ", reason));
  };
  if (c.c != DType::kNone) return refused("c", "has no C");
  if (c.trans_a != 0) return refused("trans_a", "has a ROW_MAJOR A");
  if (c.dependent_launch != DependentLaunch::kOff)
    return refused("dependent_launch", "has no dependent launch");
  if (c.residual != DType::kNone && (c.residual != DType::kF32 || c.combine != Combine::kMultiply))
    return refused("residual", "has only one of f32 that is multiplied, with a gate");
  if (sum_of(c.rows) != DType::kNone && c.d != DType::kF32)
    return refused("d", "sums f32 rows; the dtype of the sums is in \"rows\"");
  return absl::OkStatus();
}

absl::Status check_product(const ProblemClass& c) {
  if (c.rows != Rows::kPlain && c.op != Op::kMatmul) return wrong("\"rows\": only a matmul has it");
  if (is_grouped(c.rows)) LATHE_RETURN_IF_ERROR(check_grouped(c));
  if (c.n < 1) return wrong("\"n\" must be at least 1");
  LATHE_RETURN_IF_ERROR(expect_absent("row_lo", c.row_lo == 0));
  LATHE_RETURN_IF_ERROR(expect_absent("row_hi", c.row_hi == 0));
  if (c.op == Op::kMatmulArgmax) return absl::OkStatus();
  LATHE_RETURN_IF_ERROR(expect_absent("wants_values", c.wants_values == 0));
  return expect_absent("logits", c.logits == DType::kNone);
}

absl::Status check_elementwise(const ProblemClass& c) {
  if (c.dependent_launch == DependentLaunch::kConstantB)
    return wrong("\"dependent_launch\": 2 needs a constant B, and an elementwise op has no B");
  ProblemClass known;
  known.op = Op::kElementwise;
  known.a = c.a, known.b = c.b, known.c = c.c, known.d = c.d, known.bias = c.bias,
  known.residual = c.residual;
  known.alignment = c.alignment;
  known.dependent_launch = c.dependent_launch;
  known.m_lo = c.m_lo, known.m_hi = c.m_hi;
  known.program_lo = c.program_lo, known.program_hi = c.program_hi;
  if (c == known) return absl::OkStatus();
  return wrong(
      "an elementwise op has only \"program\", dtypes, \"alignment\", \"dependent_launch\", \"m_lo\" and "
      "\"m_hi\"");
}

absl::Status check_indices(const ProblemClass& c) {
  LATHE_RETURN_IF_ERROR(expect_absent("c", c.c == DType::kNone));
  LATHE_RETURN_IF_ERROR(expect_absent("residual", c.residual == DType::kNone));
  LATHE_RETURN_IF_ERROR(expect_absent("combine", c.combine == Combine::kAdd));
  return expect_absent("activation", c.activation == Activation::kNone);
}

const Json& default_fields() {
  static const Json fields = [] {
    Json json = to_json(ProblemClass());
    json.erase("generic");  // no request has a generic class
    return json;
  }();
  return fields;
}

// Parses the program and checks that the class has its digest and dtypes. Throws.
std::shared_ptr<const ElementwiseProgram> read_program(const std::string& text, const ProblemClass& c) {
  absl::StatusOr<ElementwiseProgram> read = parse_elementwise(text);
  if (!read.ok())
    throw std::invalid_argument(absl::StrCat("\"", kText, "\": ", std::string(read.status().message())));
  ProblemClass of_text = class_of(*read);
  of_text.alignment = c.alignment;
  of_text.dependent_launch = c.dependent_launch;
  if (!(of_text == c))
    throw std::invalid_argument("\"program\": its digest or its dtypes differ from those of \"text\"");
  return std::make_shared<const ElementwiseProgram>(*std::move(read));
}

// Fills in the first bucket of a weight, because check_class accepts only a complete class.
void fill_covered(ProblemClass* c) {
  if (has_row_lengths(c->op)) {
    c->row_lo = row_bucket(1).lo;
    c->row_hi = row_bucket(1).hi;
  } else if (!has_program(c->op)) {
    c->m_hi = m_bucket(1).hi;
  }
}

// Throws.
void check_grouped(const ManifestEntry& entry) {
  if (!is_grouped(entry.problem.rows) || entry.m_max == 0)
    throw std::invalid_argument(absl::StrCat("\"", kGroups, "\", \"", kSlots, "\" and \"", kKept,
                                             "\" are for entries of grouped products with \"m_max\""));
  if (entry.grouped.groups == 0 || entry.grouped.slots == 0)
    throw std::invalid_argument(absl::StrCat("\"", kGroups, "\" and \"", kSlots, "\" need each other"));
}

// Throws.
ManifestEntry read_entry(const Json& json) {
  if (!json.is_object()) throw std::invalid_argument("not an object");
  ManifestEntry entry;
  std::string text;
  Json fields = default_fields();
  fields["generic"] = 0;
  for (const auto& [name, value] : json.items()) {
    // No field is nested. Refusing nested values also protects the stack: the JSON library copies recursively.
    if (value.is_structured())
      throw std::invalid_argument(absl::StrCat("\"", name, "\" is an array or object"));
    if (name == kName) {
      entry.name = text_field(json, kName);
    } else if (name == kText) {
      text = text_field(json, kText);
    } else if (name == kMMax) {
      entry.m_max = int_field(json, kMMax, 1, Bucket::kOpenEnd);
    } else if (name == kSplitK) {
      entry.split_k = static_cast<int32_t>(int_field(json, kSplitK, 0, kMostSplits));
    } else if (name == kCandidate) {
      entry.candidate = static_cast<int32_t>(int_field(json, kCandidate, 0, INT32_MAX));
    } else if (name == kGroups) {
      entry.grouped.groups = int_field(json, kGroups, 1, INT32_MAX);
    } else if (name == kSlots) {
      entry.grouped.slots = int_field(json, kSlots, 1, INT32_MAX);
    } else if (name == kKept) {
      entry.grouped.kept = int_field(json, kKept, 1, INT32_MAX);
    } else if (default_fields().contains(name) || name == "rows") {
      fields[name] = value;
    } else {
      throw std::invalid_argument(absl::StrCat("\"", name, "\": unknown field"));
    }
  }
  if (!json.contains("op")) throw std::invalid_argument("\"op\" is missing");
  absl::StatusOr<ProblemClass> problem = problem_class_from_json(fields);
  if (!problem.ok()) throw std::invalid_argument(std::string(problem.status().message()));
  entry.problem = *problem;
  if (entry.m_max > 0) {
    for (const char* field : kOfOneClass)
      if (json.contains(field))
        throw std::invalid_argument(
            absl::StrCat("\"", field, "\" must be absent: \"m_max\" covers all its values"));
    fill_covered(&entry.problem);
  }
  if (!(entry.grouped == GroupedSizes())) check_grouped(entry);
  const absl::Status status = check_class(entry.problem);
  if (!status.ok()) throw std::invalid_argument(std::string(status.message()));
  const bool elementwise = has_program(entry.problem.op);
  if (elementwise != json.contains(kText))
    throw std::invalid_argument(elementwise ? "\"text\" is missing: it holds the program of an elementwise op"
                                            : "\"text\": this op has no program");
  if (elementwise) entry.program = read_program(text, entry.problem);
  return entry;
}

uint64_t hash_of(const ManifestEntry& e) {
  const int64_t words[] = {static_cast<int64_t>(hash_of(e.problem)),
                           e.m_max,
                           e.split_k,
                           e.candidate,
                           e.grouped.groups,
                           e.grouped.slots,
                           e.grouped.kept};
  return XXH3_64bits(words, sizeof(words));
}

// Removes duplicates, keeping the first of each and the order.
void drop_twins(std::vector<ManifestEntry>* entries) {
  std::map<uint64_t, std::vector<size_t>> seen;  // places in `kept` by hash
  std::vector<ManifestEntry> kept;
  for (ManifestEntry& e : *entries) {
    std::vector<size_t>& places = seen[hash_of(e)];
    if (std::any_of(places.begin(), places.end(), [&](size_t at) { return kept[at] == e; })) continue;
    places.push_back(kept.size());
    kept.push_back(std::move(e));
  }
  *entries = std::move(kept);
}

// A hash of the contents, independent of white space and of the order of fields.
std::string digest_of(Json json) {
  json.erase(kDigest);
  const std::string text = canonical_text(json);
  return absl::StrCat(absl::Hex(XXH3_64bits(text.data(), text.size()), absl::kZeroPad16));
}

// Throws.
Manifest read_manifest(const Json& json) {
  if (!json.is_object()) throw std::invalid_argument("not an object");
  const int64_t version = int_field(json, "lathe_manifest", 0, INT32_MAX);
  if (version != kVersion)
    throw std::invalid_argument(
        absl::StrCat("\"lathe_manifest\": version ", version, ", but this library reads version ", kVersion));
  for (const auto& [name, value] : json.items())
    if (name != "lathe_manifest" && name != "about" && name != "classes" && name != kDigest)
      throw std::invalid_argument(absl::StrCat("\"", name, "\": unknown field"));
  if (json.contains(kDigest) && text_field(json, kDigest) != digest_of(json))
    throw std::invalid_argument(
        "\"digest\" does not match the text, which was changed or damaged; if you edited it, remove "
        "\"digest\"");
  Manifest manifest;
  if (json.contains("about")) {
    if (!json["about"].is_object()) throw std::invalid_argument("\"about\" is not an object");
    for (const auto& [name, value] : json["about"].items()) {
      if (!value.is_string())
        throw std::invalid_argument(absl::StrCat("\"about\": \"", name, "\" is not a string"));
      manifest.about[name] = value.get<std::string>();
    }
  }
  const Json& classes = json.at("classes");
  if (!classes.is_array()) throw std::invalid_argument("\"classes\" is not an array");
  if (classes.size() > kMostEntries)
    throw std::invalid_argument(
        absl::StrCat(classes.size(), " classes, more than the limit of ", kMostEntries));
  for (size_t i = 0; i < classes.size(); ++i) {
    try {
      manifest.entries.push_back(read_entry(classes[i]));
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      throw std::invalid_argument(absl::StrCat("classes[", i, "]: ", e.what()));
    }
  }
  drop_twins(&manifest.entries);
  return manifest;
}

}  // namespace

void Manifest::add(const ManifestEntry& entry) {
  if (std::find(entries.begin(), entries.end(), entry) == entries.end()) entries.push_back(entry);
}

void Manifest::add(const Manifest& other) {
  about.insert(other.about.begin(), other.about.end());
  entries.insert(entries.end(), other.entries.begin(), other.entries.end());
  drop_twins(&entries);
}

absl::Status check_class(const ProblemClass& c) {
  if (c.generic != 0) return wrong("\"generic\": no request has a generic class");
  if (has_program(c.op)) {
    LATHE_RETURN_IF_ERROR(check_elementwise(c));
    return check_rows(c);
  }
  if (returns_indices(c.op)) LATHE_RETURN_IF_ERROR(check_indices(c));
  LATHE_RETURN_IF_ERROR(has_row_lengths(c.op) ? check_argmax(c) : check_product(c));
  if (const ClassDefect defect = find_defect(c, Devices::kAll); !defect.ok())
    return wrong(absl::StrCat("\"", defect.field, "\": ", defect.reason));
  return check_rows(c);
}

absl::StatusOr<Manifest> parse_manifest(absl::string_view text) {
  if (text.size() > kMostBytes)
    return wrong(absl::StrCat("manifest: ", text.size(), " bytes, more than the limit of ", kMostBytes));
  LATHE_ASSIGN_OR_RETURN(const Json json, parse_json(text, "manifest"));
  return read_json("manifest", [&] { return read_manifest(json); });
}

std::string manifest_line(const ManifestEntry& entry) {
  Json json = to_json(entry.problem);
  json.erase("generic");
  if (entry.m_max > 0) {
    json[kMMax] = entry.m_max;
    for (const char* field : kOfOneClass) json.erase(field);
  }
  for (const auto& [name, value] : default_fields().items())
    if (name != "op" && json.contains(name) && json[name] == value) json.erase(name);
  if (entry.program != nullptr) json[kText] = entry.program->text;
  if (!entry.name.empty()) json[kName] = entry.name;
  if (entry.split_k > 0) json[kSplitK] = entry.split_k;
  if (entry.candidate > 0) json[kCandidate] = entry.candidate;
  if (entry.grouped.groups > 0) json[kGroups] = entry.grouped.groups;
  if (entry.grouped.slots > 0) json[kSlots] = entry.grouped.slots;
  if (entry.grouped.kept > 0) json[kKept] = entry.grouped.kept;
  return canonical_text(json);
}

std::string manifest_text(const Manifest& manifest) {
  std::string text = absl::StrCat("{\n \"lathe_manifest\": ", kVersion, ",\n");
  if (!manifest.about.empty())
    absl::StrAppend(&text, " \"about\": ", canonical_text(Json(manifest.about)), ",\n");
  absl::StrAppend(&text, " \"classes\": [");
  for (const ManifestEntry& entry : manifest.entries)
    absl::StrAppend(&text, &entry == &manifest.entries.front() ? "\n  " : ",\n  ", manifest_line(entry));
  absl::StrAppend(&text, manifest.entries.empty() ? "]" : "\n ]");
  // Parse the text to compute the digest, so that it covers exactly what a reader will see.
  const std::string digest = digest_of(Json::parse(text + "}"));
  return absl::StrCat(text, ",\n \"", kDigest, "\": \"", digest, "\"\n}\n");
}

}  // namespace lathe
