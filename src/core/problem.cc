#include "core/problem.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/json_object.h"
#include "core/packed.h"

namespace lathe {
namespace {

// Buckets up to kExactM hold one value. The arrays give the upper ends of all further ranges.
constexpr int64_t kExactM = 16;
constexpr int64_t kMEnds[] = {32, 64, 128, 256, 512, Bucket::kOpenEnd};
constexpr int64_t kRowEnds[] = {1024, 16384, Bucket::kOpenEnd};

template <size_t N>
Bucket range_of(const int64_t (&ends)[N], int64_t first, int64_t value) {
  int64_t lo = first;
  for (int64_t end : ends) {
    if (value <= end) return {lo, end};
    lo = end + 1;
  }
  return {ends[N - 2] + 1, ends[N - 1]};
}

template <typename E>
E enum_field(const Json& j, const char* name) {
  const std::string text = text_field(j, name);
  E value;
  if (!parse(text, &value)) throw std::invalid_argument(absl::StrCat("\"", name, "\": unknown value ", text));
  return value;
}

constexpr absl::string_view kRowsNames[] = {"plain",   "device_m", "offsets", "row_ids", "counts",
                                            "indexed", "sum_f32",  "sum_f16", "sum_bf16"};

Rows rows_field(const Json& j) {
  const std::string text = text_field(j, "rows");
  for (size_t i = 1; i < std::size(kRowsNames); ++i)
    if (text == kRowsNames[i]) return static_cast<Rows>(i);
  throw std::invalid_argument(absl::StrCat("\"rows\": unknown value ", text));
}

// Empty if the class has no program.
std::string digest_text(const ProblemClass& c) {
  if ((c.program_hi | c.program_lo) == 0) return "";
  return absl::StrCat(absl::Hex(c.program_hi, absl::kZeroPad16), absl::Hex(c.program_lo, absl::kZeroPad16));
}

void read_digest(const std::string& text, ProblemClass* c) {
  if (text.empty()) return;
  const bool digits = text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!digits || !absl::SimpleHexAtoi(text.substr(0, 16), &c->program_hi) ||
      !absl::SimpleHexAtoi(text.substr(16), &c->program_lo) || (c->program_hi | c->program_lo) == 0)
    throw std::invalid_argument(absl::StrCat("\"program\" is not a digest of 32 hexadecimal digits: ", text));
}

Op op_field(const Json& j) {
  const std::string text = text_field(j, "op");
  for (const OpRow& row : ops::kRows)
    if (text == row.name) return row.op;
  throw std::invalid_argument(absl::StrCat("\"op\": unknown value ", text));
}

}  // namespace

absl::string_view name_of(Rows rows) { return kRowsNames[static_cast<size_t>(rows)]; }

int32_t alignment_bytes(Alignment a, DType element) {
  switch (a) {
    case Alignment::kElement: return static_cast<int32_t>(size_of(element));
    case Alignment::k16: return 16;
    case Alignment::kByte: return 1;
  }
  return 1;
}

Bucket m_bucket(int64_t m) {
  m = std::max<int64_t>(m, 1);
  if (m <= kExactM) return {m, m};
  return range_of(kMEnds, kExactM + 1, m);
}

std::vector<Bucket> m_buckets(int64_t m_max) {
  std::vector<Bucket> buckets;
  m_max = std::min<int64_t>(m_max, Bucket::kOpenEnd);  // the last bucket ends there
  for (int64_t m = 1; m <= m_max; m = buckets.back().hi + 1) buckets.push_back(m_bucket(m));
  return buckets;
}

Bucket row_bucket(int64_t n) { return range_of(kRowEnds, 1, n); }

std::vector<Bucket> row_buckets() {
  std::vector<Bucket> buckets;
  int64_t lo = 1;
  for (int64_t end : kRowEnds) {
    buckets.push_back({lo, end});
    lo = end + 1;
  }
  return buckets;
}

bool ProblemClass::operator==(const ProblemClass& o) const { return memcmp(this, &o, sizeof(*this)) == 0; }

ProblemClass with_alignment(const ProblemClass& c, Alignment alignment, bool is_cpu) {
  ProblemClass aligned = c;
  aligned.alignment = is_cpu ? Alignment::kElement : alignment;
  if (aligned.alignment == Alignment::kByte && !has_row_lengths(c.op)) {
    aligned.m_lo = 1;
    aligned.m_hi = Bucket::kOpenEnd;
  }
  return aligned;
}

uint64_t hash_of(const ProblemClass& c) { return XXH3_64bits(&c, sizeof(c)); }

Json to_json(const ProblemClass& c) {
  const auto text = [](absl::string_view s) { return std::string(s); };
  Json json = json_object(
      "op", text(name_of(c.op)), "a", text(name_of(c.a)), "b", text(name_of(c.b)), "c", text(name_of(c.c)),
      "d", text(name_of(c.d)), "bias", text(name_of(c.bias)), "residual", text(name_of(c.residual)),
      "trans_a", c.trans_a, "trans_b", c.trans_b, "activation", text(name_of(c.activation)), "combine",
      text(name_of(c.combine)), "determinism", text(name_of(c.determinism)), "alignment",
      static_cast<int32_t>(c.alignment), "wants_values", c.wants_values, "packed_b", c.packed_b, "math",
      text(name_of(c.math)), "logits", text(name_of(c.logits)), "generic", c.generic, "dependent_launch",
      static_cast<int32_t>(c.dependent_launch), "scale_a", static_cast<int32_t>(c.scale_a), "scale_b",
      static_cast<int32_t>(c.scale_b), "zero_a", c.zero_a, "zero_b", static_cast<int32_t>(c.zero_b), "n", c.n,
      "k", c.k, "m_lo", c.m_lo, "m_hi", c.m_hi, "row_lo", c.row_lo, "row_hi", c.row_hi, "program",
      digest_text(c));
  if (c.rows != Rows::kPlain)
    json["rows"] = text(name_of(c.rows));  // older keys and manifests have no such field
  return json;
}

absl::StatusOr<ProblemClass> problem_class_from_json(const Json& j) {
  return read_json("problem class", [&] {
    const bool has_rows = j.is_object() && j.contains("rows");
    expect_fields(j, has_rows ? 31 : 30);
    ProblemClass c;
    c.op = op_field(j);
    if (has_rows) c.rows = rows_field(j);
    c.a = enum_field<DType>(j, "a");
    c.b = enum_field<DType>(j, "b");
    c.c = enum_field<DType>(j, "c");
    c.d = enum_field<DType>(j, "d");
    c.bias = enum_field<DType>(j, "bias");
    c.residual = enum_field<DType>(j, "residual");
    c.trans_a = int_field(j, "trans_a", 0, 1);
    c.trans_b = int_field(j, "trans_b", 0, 1);
    c.activation = enum_field<Activation>(j, "activation");
    c.combine = enum_field<Combine>(j, "combine");
    c.determinism = enum_field<Determinism>(j, "determinism");
    c.alignment = static_cast<Alignment>(int_field(j, "alignment", 0, 2));
    c.wants_values = static_cast<int8_t>(int_field(j, "wants_values", 0, 1));
    c.packed_b = static_cast<int16_t>(int_field(j, "packed_b", 0, kColumns16));
    c.math = enum_field<Math>(j, "math");
    c.logits = enum_field<DType>(j, "logits");
    c.generic = static_cast<int16_t>(int_field(j, "generic", 0, 1));
    c.dependent_launch = static_cast<DependentLaunch>(int_field(j, "dependent_launch", 0, 2));
    c.scale_a = static_cast<Scale>(int_field(j, "scale_a", 0, 2));
    c.scale_b = static_cast<Scale>(int_field(j, "scale_b", 0, 2));
    c.zero_a = static_cast<int16_t>(int_field(j, "zero_a", 0, 1));
    c.zero_b = static_cast<Scale>(int_field(j, "zero_b", 0, 2));
    c.n = int_field(j, "n", 0, INT32_MAX);
    c.k = int_field(j, "k", 0, INT32_MAX);
    c.m_lo = int_field(j, "m_lo", 1, Bucket::kOpenEnd);
    c.m_hi = int_field(j, "m_hi", c.m_lo, Bucket::kOpenEnd);
    c.row_lo = int_field(j, "row_lo", 0, Bucket::kOpenEnd);
    c.row_hi = int_field(j, "row_hi", c.row_lo, Bucket::kOpenEnd);
    read_digest(text_field(j, "program"), &c);
    return c;
  });
}

std::string describe(const ProblemClass& c, const Dims& dims) {
  if (has_row_lengths(c.op))
    return absl::StrCat(name_of(c.op), " ", name_of(c.a), " rows=", dims.m, " n=", dims.n,
                        " indices=", name_of(c.d), c.wants_values ? " values" : "");
  if (has_program(c.op))
    return absl::StrCat(name_of(c.op), " ", name_of(c.d), " m=", dims.m, " n=", dims.n, " batch=", dims.batch,
                        " program=", digest_text(c).substr(0, 8));
  const bool mixed = c.b != c.a && c.b != DType::kNone;
  std::string text = absl::StrCat(name_of(c.op), " ", name_of(c.a), mixed ? " by " : "",
                                  mixed ? name_of(c.b) : "", c.trans_a ? " a=t" : " a=n",
                                  c.packed_b  ? " b=packed"
                                  : c.trans_b ? " b=t"
                                              : " b=n",
                                  " m=", dims.m, " n=", dims.n, " k=", dims.k);
  if (c.op == Op::kMatmulArgmax) {
    absl::StrAppend(&text, " logits=", name_of(c.logits), " indices=", name_of(c.d),
                    c.wants_values ? " values" : "");
    if (c.bias != DType::kNone) absl::StrAppend(&text, " bias=", name_of(c.bias));
    if (c.math != Math::kStrict) absl::StrAppend(&text, " math=", name_of(c.math));
    return text;
  }
  absl::StrAppend(&text, is_grouped(c.rows) ? " groups=" : " batch=", dims.batch);
  if (c.rows != Rows::kPlain) absl::StrAppend(&text, " rows=", name_of(c.rows));
  if (c.d != c.a) absl::StrAppend(&text, " d=", name_of(c.d));
  constexpr const char* kScales[] = {"", "tensor", "channel"};
  if (c.scale_a != Scale::kNone) absl::StrAppend(&text, " scale_a=", kScales[static_cast<size_t>(c.scale_a)]);
  if (c.scale_b != Scale::kNone) absl::StrAppend(&text, " scale_b=", kScales[static_cast<size_t>(c.scale_b)]);
  if (c.zero_a) absl::StrAppend(&text, " zero_a");
  if (c.zero_b != Scale::kNone) absl::StrAppend(&text, " zero_b=", kScales[static_cast<size_t>(c.zero_b)]);
  if (c.c != DType::kNone) absl::StrAppend(&text, " c=", name_of(c.c));
  if (c.bias != DType::kNone) absl::StrAppend(&text, " bias=", name_of(c.bias));
  if (c.activation != Activation::kNone) absl::StrAppend(&text, " ", name_of(c.activation));
  if (c.residual != DType::kNone)
    absl::StrAppend(&text, c.combine == Combine::kAdd ? " residual=" : " times=", name_of(c.residual));
  if (c.math != Math::kStrict) absl::StrAppend(&text, " math=", name_of(c.math));
  return text;
}

}  // namespace lathe
