#include "core/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "json_leaves.h"

namespace lathe {
namespace {

using ::testing::HasSubstr;

std::string text_of(const std::string& classes) {
  return "{\"lathe_manifest\":1,\"classes\":[" + classes + "]}";
}
constexpr char kWeight[] =
    R"({"op":"matmul","a":"bf16","b":"bf16","d":"bf16","trans_b":1,"n":6144,"k":4096,"m_max":8192,"name":"qkv"})";

std::string error_of(const std::string& text) {
  const auto manifest = parse_manifest(text);
  EXPECT_FALSE(manifest.ok()) << text;
  return std::string(manifest.status().message());
}

TEST(Manifest, ReadsAWeightAndAClass) {
  const auto manifest = parse_manifest(text_of(
      std::string(kWeight) +
      R"(,{"op":"argmax","a":"f32","d":"i64","row_lo":1025,"row_hi":16384,"wants_values":1,"alignment":1})"));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->entries.size(), 2u);
  const ManifestEntry& weight = manifest->entries[0];
  EXPECT_EQ(weight.name, "qkv");
  EXPECT_EQ(weight.m_max, 8192);
  EXPECT_EQ(weight.problem.op, Op::kMatmul);
  EXPECT_EQ(weight.problem.a, DType::kBF16);
  EXPECT_EQ(weight.problem.c, DType::kNone);
  EXPECT_EQ(weight.problem.trans_b, 1);
  EXPECT_EQ(weight.problem.n, 6144);
  EXPECT_EQ(weight.problem.k, 4096);
  const ManifestEntry& rows = manifest->entries[1];
  EXPECT_EQ(rows.m_max, 0);
  EXPECT_EQ(rows.problem.row_lo, 1025);
  EXPECT_EQ(rows.problem.alignment, Alignment::k16);
  EXPECT_EQ(rows.problem.m_hi, Bucket::kOpenEnd);
}

// A random class that a request can have.
ManifestEntry random_entry(std::mt19937& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const DType floats[] = {DType::kF32, DType::kF16, DType::kBF16};
  ManifestEntry e;
  ProblemClass& c = e.problem;
  c.op = static_cast<Op>(1 + below(3));
  c.a = floats[below(3)];
  c.determinism = static_cast<Determinism>(below(3));
  c.alignment = static_cast<Alignment>(below(3));
  c.dependent_launch = static_cast<DependentLaunch>(below(2));
  if (below(2)) e.name = "layer " + std::to_string(below(9));
  if (below(4) == 0) e.split_k = 1 + below(9);
  if (below(4) == 0) e.candidate = 1 + below(9);
  Bucket rows = c.alignment == Alignment::kByte ? Bucket() : m_bucket(1 + below(2000));
  if (c.op != Op::kMatmul) {
    c.d = below(2) ? DType::kI32 : DType::kI64;
    c.wants_values = below(2);
  }
  if (c.op == Op::kArgmax) {
    const Bucket row = row_bucket(1 + below(40000));
    c.row_lo = row.lo, c.row_hi = row.hi;
    return e;
  }
  c.b = c.a;
  c.n = 1 + below(100000);
  c.k = below(100000);
  c.trans_a = below(2), c.trans_b = below(2);
  c.m_lo = rows.lo, c.m_hi = rows.hi;
  if (c.a == DType::kF32) c.math = static_cast<Math>(below(2));
  if (below(2)) c.bias = floats[below(3)];
  if (c.op == Op::kMatmulArgmax) {
    c.logits = floats[below(3)];
    return e;
  }
  c.d = floats[below(3)];
  if (below(2)) c.c = floats[below(3)];
  if (below(2)) c.residual = floats[below(3)];
  c.activation = static_cast<Activation>(below(5));
  if (below(3) == 0) {  // a weight: all of its classes
    if (below(2) && c.c == DType::kNone && c.math == Math::kStrict) {
      c.rows = Rows::kIndexed;
      c.trans_a = 0;
      c.residual = DType::kNone;
      c.dependent_launch = DependentLaunch::kOff;
      if (below(2)) e.grouped = {1 + below(300), 1 + below(10), below(2000)};
    }
    e.m_max = 1 + below(9999);
    c.m_lo = c.m_hi = 1;
    c.alignment = Alignment::kElement;
  }
  return e;
}

TEST(Manifest, RoundTripsThroughText) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Manifest manifest;
    if (round % 2) manifest.about = {{"model", "a \"quoted\" name"}, {"tp", "8"}};
    for (int i = 0; i < round % 7; ++i) manifest.add(random_entry(random));
    const std::string text = manifest_text(manifest);
    const auto back = parse_manifest(text);
    ASSERT_TRUE(back.ok()) << back.status() << "\n" << text;
    EXPECT_EQ(back->entries, manifest.entries) << text;
    EXPECT_EQ(back->about, manifest.about);
    EXPECT_EQ(manifest_text(*back), text);
  }
}

// A changed field must be refused or give another entry. No field may be ignored.
TEST(Manifest, ReadsEveryField) {
  std::mt19937 random(8);
  for (int round = 0; round < 60; ++round) {
    ManifestEntry e = random_entry(random);
    e.name.clear();
    for_each_changed_leaf(Json::parse(manifest_line(e)), [&](const std::string& path, const Json& changed) {
      const auto back = parse_manifest(text_of(changed.dump()));
      if (back.ok()) EXPECT_FALSE(back->entries[0] == e) << path << " " << changed.dump();
    });
  }
}

TEST(Manifest, RefusesSizesOfCallsThatAreNotGrouped) {
  const std::string weight = R"({"op":"matmul","a":"bf16","b":"bf16","d":"bf16","n":64,"k":64)";
  EXPECT_THAT(error_of(text_of(weight + R"(,"m_max":8,"groups":8,"slots":2})")),
              HasSubstr("are for entries of grouped products"));
  EXPECT_THAT(error_of(text_of(weight + R"(,"rows":"indexed","groups":8,"slots":2})")),
              HasSubstr("with \"m_max\""));
  EXPECT_THAT(error_of(text_of(weight + R"(,"rows":"indexed","m_max":8,"groups":8})")),
              HasSubstr("\"groups\" and \"slots\" need each other"));
  EXPECT_THAT(error_of(text_of(weight + R"(,"rows":"indexed","m_max":8,"groups":0,"slots":2})")),
              HasSubstr("groups"));
}

TEST(Manifest, DropsDuplicatesAndKeepsTheFirstName) {
  std::string twin = kWeight;
  twin.replace(twin.find("qkv"), 3, "one");
  const auto manifest = parse_manifest(text_of(std::string(kWeight) + "," + twin));
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  ASSERT_EQ(manifest->entries.size(), 1u);
  EXPECT_EQ(manifest->entries[0].name, "qkv");
  Manifest other = *manifest;
  other.add(manifest->entries[0]);
  EXPECT_EQ(other.entries.size(), 1u);
}

TEST(Manifest, NamesTheLocationOfADefect) {
  EXPECT_THAT(error_of("{\n \"lathe_manifest\": 1,\n oops"), HasSubstr("line 3, column 2"));
  EXPECT_THAT(error_of(""), HasSubstr("line 1, column 1"));
  EXPECT_THAT(error_of("[]"), HasSubstr("not an object"));
  EXPECT_THAT(error_of("{\"classes\":[]}"), HasSubstr("lathe_manifest"));
  EXPECT_THAT(error_of("{\"lathe_manifest\":2,\"classes\":[]}"),
              HasSubstr("version 2, but this library reads version 1"));
  EXPECT_THAT(error_of("{\"lathe_manifest\":1}"), HasSubstr("classes"));
  EXPECT_THAT(error_of("{\"lathe_manifest\":1,\"classes\":[],\"extra\":0}"),
              HasSubstr("\"extra\": unknown field"));
  EXPECT_THAT(error_of("{\"lathe_manifest\":1,\"about\":{\"x\":1},\"classes\":[]}"),
              HasSubstr("\"x\" is not a string"));
  EXPECT_THAT(error_of(text_of("{}")), HasSubstr("classes[0]: \"op\" is missing"));
  EXPECT_THAT(error_of(text_of(std::string(kWeight) + ",7")), HasSubstr("classes[1]: not an object"));
  const auto changed = [](const std::string& from, const std::string& to) {
    std::string text = kWeight;
    text.replace(text.find(from), from.size(), to);
    return error_of(text_of(text));
  };
  EXPECT_THAT(changed("matmul", "conv"), HasSubstr("\"op\": unknown value conv"));
  EXPECT_THAT(changed("\"b\":\"bf16\"", "\"b\":\"f16\""), HasSubstr("\"b\": dtype f16 differs from bf16"));
  EXPECT_THAT(changed("\"d\":\"bf16\"", "\"d\":\"i32\""),
              HasSubstr("\"d\": dtype i32 is not one of f32, f16, bf16"));
  EXPECT_THAT(changed("6144", "0"), HasSubstr("\"n\" must be at least 1"));
  EXPECT_THAT(changed("6144", "6144.5"), HasSubstr("\"n\" is not an integer"));
  EXPECT_THAT(changed("8192", "0"), HasSubstr("\"m_max\" 0 is not in [1, 2147483647]"));
  EXPECT_THAT(changed("\"m_max\":8192", "\"m_lo\":17,\"m_hi\":31"), HasSubstr("[17, 31] is not a bucket"));
  EXPECT_THAT(changed("\"m_max\"", "\"m_lo\":1,\"m_max\""),
              HasSubstr("\"m_lo\" must be absent: \"m_max\" covers all its values"));
  EXPECT_THAT(changed("\"name\"", "\"generic\":0,\"name\""), HasSubstr("\"generic\": unknown field"));
  EXPECT_THAT(changed("trans_b", "transb"), HasSubstr("\"transb\": unknown field"));
}

TEST(Manifest, RefusesTooManyClassesAndWrongTypes) {
  EXPECT_THAT(error_of(R"({"lathe_manifest":1,"about":7,"classes":[]})"),
              HasSubstr("\"about\" is not an object"));
  EXPECT_THAT(error_of(R"({"lathe_manifest":1,"classes":{}})"), HasSubstr("\"classes\" is not an array"));
  std::string zeros = "0";
  for (int i = 0; i < 100000; ++i) zeros += ",0";
  EXPECT_THAT(error_of(text_of(zeros)), HasSubstr("100001 classes, more than the limit of 100000"));
  EXPECT_THAT(std::string(parse_manifest(std::string((64 << 20) + 1, ' ')).status().message()),
              HasSubstr("67108865 bytes, more than the limit of 67108864"));
}

// Each of these classes differs in one field from a valid class.
TEST(Manifest, RefusesClassesThatNoRequestCanHave) {
  const std::vector<std::string> taken = {
      R"("a":"f32","b":"q4_0","d":"f32","trans_b":1,"k":64,"math":"int8")",
      R"("a":"f32","b":"f32","d":"f16","trans_b":1,"k":65,"math":"tf32","packed_b":1,"c":"f32","bias":"f16")",
      R"("a":"i8","b":"i8","d":"i32","k":65,"zero_a":1)",
      R"("a":"i8","b":"i8","d":"f16","k":65,"scale_a":1,"scale_b":2,"zero_b":2,"bias":"f32","residual":"bf16")",
      R"("a":"f8e4m3","b":"f8e4m3","d":"f32","k":65)",
      R"("a":"f32","b":"f16","d":"f32","trans_b":1,"k":65,"packed_b":1)",
      R"("a":"f32","b":"bf16","d":"f32","trans_b":1,"k":65,"math":"bf16")",
      R"("a":"f16","b":"f16","d":"f32","k":65,"rows":"sum_bf16","bias":"f32")",
      R"("a":"f16","b":"f16","d":"f16","k":65,"rows":"offsets","residual":"f32","combine":"multiply")"};
  const auto with = [](std::string fields, const std::string& changes) {
    Json json = Json::parse("{\"op\":\"matmul\",\"n\":48,\"m_max\":8," + fields + "}");
    json.update(Json::parse("{" + changes + "}"));
    return text_of(json.dump());
  };
  for (const std::string& fields : taken)
    EXPECT_TRUE(parse_manifest(with(fields, "")).ok()) << parse_manifest(with(fields, "")).status();
  const struct {
    size_t of;
    const char *change, *cause;
  } cases[] = {
      {0, R"("k":65)", "65 is not a multiple of 32"},
      {0, R"("trans_b":0)", "\"b\": q4_0 has its blocks along K"},
      {0, R"("a":"i8")", "\"a\": dtype i8 cannot be multiplied by q4_0"},
      {0, R"("math":"tf32")", "tf32 does not apply to"},
      {0, R"("math":"strict","packed_b":1)", "packed q4_0 needs math int8"},
      {0, R"("a":"i32")", "i32 is not one of"},
      {1, R"("a":"f16","b":"f16")", "tf32 does not apply to"},
      {1, R"("b":"f16")", "tf32 does not apply to"},
      {5, R"("a":"bf16")", "f16 differs from bf16"},
      {5, R"("b":"f8e4m3")", "f8e4m3 differs from f32"},
      {1, R"("math":"int8")", "int8 does not apply to f32 by f32"},
      {1, R"("math":"bf16")", "bf16 does not apply to"},
      {6, R"("a":"bf16")", "bf16 does not apply to"},
      {6, R"("b":"f16")", "bf16 does not apply to"},
      {1, R"("trans_b":0)", "\"packed_b\""},
      {1, R"("scale_a":1)", "only a matmul of i8 has scales and zero points"},
      {1, R"("zero_a":1)", "only a matmul of i8 has scales and zero points"},
      {1, R"("zero_b":1)", "only a matmul of i8 has scales and zero points"},
      {2, R"("zero_b":2)", "one zero point per scale"},
      {3, R"("zero_b":1)", "one zero point per scale"},
      {1, R"("c":"i8")", "\"c\": dtype i8 is not one of"},
      {1, R"("bias":"i8")", "\"bias\": dtype i8 is not one of"},
      {1, R"("residual":"i8")", "\"residual\": dtype i8 is not one of"},
      {1, R"("d":"i32")", "\"d\": dtype i32 is not one of f32, f16, bf16"},
      {1, R"("op":"matmul_argmax","logits":"f32","d":"i32","c":"none","trans_b":0)", "\"packed_b\""},
      {1, R"("op":"matmul_argmax","logits":"f32","d":"i32","c":"none","packed_b":0,"scale_b":1)",
       "only a matmul of i8 has scales and zero points"},
      {1, R"("op":"matmul_argmax","logits":"none","d":"i32","c":"none","packed_b":0)",
       "\"logits\": dtype none is not one of"},
      {2, R"("op":"matmul_argmax","logits":"f32")", "\"a\": dtype i8 is not one of f32, f16, bf16"},
      {2, R"("scale_b":1)", "which have no scales"},
      {2, R"("d":"i64")", "\"d\": dtype i64 is not one of f32, f16, bf16, i32"},
      {2, R"("c":"f32")", "which have no epilogue"},
      {2, R"("bias":"f32")", "which have no epilogue"},
      {2, R"("residual":"f32")", "which have no epilogue"},
      {2, R"("activation":"relu")", "which have no epilogue"},
      {4, R"("b":"f8e5m2")", "f8e5m2 differs from f8e4m3"},
      {4, R"("d":"i32")", "\"d\": dtype i32 is not one of f32, f16, bf16"},
      {7, R"("d":"bf16")", "\"d\": a grouped product (\"rows\": sum_bf16) sums f32 rows"},
      {7, R"("c":"f32")", "\"c\": a grouped product (\"rows\": sum_bf16) has no C"},
      {8, R"("trans_a":1)", "has a ROW_MAJOR A"},
      {8, R"("dependent_launch":1)", "has no dependent launch"},
      {8, R"("residual":"f16")", "has only one of f32 that is multiplied"},
      {8, R"("combine":"add")", "has only one of f32 that is multiplied"},
      {7, R"("op":"matmul_argmax","logits":"f32","d":"i32")", "only a matmul has it"},
  };
  for (const auto& c : cases)
    EXPECT_THAT(error_of(with(taken[c.of], c.change)), HasSubstr(c.cause))
        << taken[c.of] << " with " << c.change;
  const auto rows = parse_manifest(text_of(R"({"op":"argmax","a":"f32","d":"i64","m_max":8})"));
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->entries[0].problem.row_lo, row_bucket(1).lo);
}

// Otherwise two texts could describe the same class.
TEST(Manifest, RefusesFieldsThatTheOpDoesNotUse) {
  const struct {
    const char *op, *field;
  } cases[] = {{"argmax", R"("b":"f32")"},
               {"argmax", R"("n":1)"},
               {"argmax", R"("k":1)"},
               {"argmax", R"("trans_a":1)"},
               {"argmax", R"("trans_b":1)"},
               {"argmax", R"("bias":"f32")"},
               {"argmax", R"("math":"tf32")"},
               {"argmax", R"("scale_a":1)"},
               {"argmax", R"("scale_b":1)"},
               {"argmax", R"("zero_a":1)"},
               {"argmax", R"("zero_b":1)"},
               {"argmax", R"("packed_b":1)"},
               {"argmax", R"("logits":"f32")"},
               {"argmax", R"("c":"f32")"},
               {"argmax", R"("residual":"f32")"},
               {"argmax", R"("activation":"relu")"},
               {"matmul", R"("wants_values":1)"},
               {"matmul", R"("logits":"f32")"},
               {"matmul", R"("row_hi":1)"},
               {"matmul", R"("row_lo":1,"row_hi":1)"}};
  for (const auto& c : cases) {
    const bool argmax = std::string(c.op) == "argmax";
    Json json = Json::parse(argmax ? R"({"a":"f32","d":"i64","row_lo":1,"row_hi":1024})"
                                   : R"({"a":"f32","b":"f32","d":"f32","n":5,"k":5,"m_hi":1})");
    json["op"] = c.op;
    EXPECT_TRUE(parse_manifest(text_of(json.dump())).ok()) << parse_manifest(text_of(json.dump())).status();
    const std::string field = c.field;
    json.update(Json::parse("{" + field + "}"));
    EXPECT_THAT(error_of(text_of(json.dump())),
                HasSubstr(field.substr(0, field.find(':')) + ": this op has no such field"));
  }
}

// The digest detects all damage to a manifest that Lathe wrote.
TEST(Manifest, RefusesEveryTruncationAndEveryFlippedBit) {
  std::mt19937 random(10);
  Manifest manifest;
  manifest.about = {{"model", "llama3-8b"}, {"tp", "2"}};
  for (int i = 0; i < 4; ++i) manifest.add(random_entry(random));
  manifest.entries[0].name = "qkv";
  const std::string whole = manifest_text(manifest);
  ASSERT_TRUE(parse_manifest(whole).ok());
  // The last newline may be missing.
  for (size_t size = 0; size + 1 < whole.size(); ++size)
    EXPECT_FALSE(parse_manifest(whole.substr(0, size)).ok()) << size;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    EXPECT_FALSE(parse_manifest(flipped).ok()) << "bit " << bit << " of\n" << whole;
  }
  // Formatting does not matter. A manifest that was edited by hand needs no digest.
  Json json = Json::parse(whole);
  EXPECT_EQ(parse_manifest(json.dump(4))->entries, manifest.entries);
  json["classes"].erase(3);
  EXPECT_THAT(error_of(json.dump()), HasSubstr("\"digest\" does not match the text"));
  json.erase("digest");
  EXPECT_EQ(parse_manifest(json.dump())->entries.size(), 3u);
}

// Any bytes are refused with a cause, or give a manifest that round-trips.
TEST(Manifest, AcceptsOrRefusesAnyBytesSafely) {
  std::mt19937 random(9);
  Manifest manifest;
  for (int i = 0; i < 4; ++i) manifest.add(random_entry(random));
  Json undigested = Json::parse(manifest_text(manifest));
  undigested.erase("digest");  // test the parser itself, not the digest
  const std::string whole = undigested.dump(1);
  const auto check = [](const std::string& bytes) {
    const auto read = parse_manifest(bytes);
    if (!read.ok()) {
      EXPECT_THAT(std::string(read.status().message()), HasSubstr("manifest: "));
      return;
    }
    for (const ManifestEntry& e : read->entries) EXPECT_TRUE(check_class(e.problem).ok());
    const auto again = parse_manifest(manifest_text(*read));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->entries, read->entries);
  };
  for (size_t size = 0; size <= whole.size(); ++size) check(whole.substr(0, size));
  for (size_t at = 0; at < whole.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 1 << bit);
      check(flipped);
    }
  for (int round = 0; round < 2000; ++round) {
    std::string edited = whole;
    for (int i = 0; i < 1 + round % 5; ++i) edited[random() % edited.size()] = static_cast<char>(random());
    check(edited);
  }
  check(std::string(200000, '['));
  check(text_of("{\"op\":" + std::string(100000, '[') + std::string(100000, ']') + "}"));
}

}  // namespace
}  // namespace lathe
