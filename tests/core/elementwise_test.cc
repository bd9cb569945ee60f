#include "core/elementwise.h"

#include <gtest/gtest.h>

#include "core/facts.h"
#include "core/generic.h"
#include "core/kernel_name.h"
#include "core/key.h"
#include "core/manifest.h"

namespace lathe {
namespace {

constexpr char kScale[] =
    R"({"d":"f16","inputs":[{"dims":"bmn","dtype":"f16"},{"dims":"n","dtype":"f32"}],)"
    R"("nodes":[["arith.extf","f32",0],["arith.mulf","f32",2,1],["arith.truncf","f16",3]],"yield":4})";

std::string with_nodes(const std::string& nodes, int yield, const std::string& d = "f32") {
  return R"({"d":")" + d +
         R"(","inputs":[{"dims":"mn","dtype":"f32"},{"dims":"m","dtype":"i32"}],"nodes":[)" + nodes +
         R"(],"yield":)" + std::to_string(yield) + "}";
}

TEST(ElementwiseProgram, GivesOneCanonicalTextForEverySpelling) {
  const auto p = parse_elementwise(kScale);
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->text, kScale);
  const auto spaced = parse_elementwise(
      R"({ "yield": 4, "nodes": [["arith.extf", "f32", 0], ["arith.mulf", "f32", 2, 1], ["arith.truncf", "f16", 3]],
          "inputs": [{"dtype": "f16", "dims": "bmn"}, {"dtype": "f32", "dims": "n"}], "d": "f16"})");
  ASSERT_TRUE(spaced.ok()) << spaced.status();
  EXPECT_EQ(spaced->text, p->text);
  EXPECT_TRUE(class_of(*spaced) == class_of(*p));
  // 2 and 2.0 are the same float.
  const auto two = parse_elementwise(with_nodes(R"(["number","f32",2])", 2));
  const auto also = parse_elementwise(with_nodes(R"(["number","f32",2.0])", 2));
  ASSERT_TRUE(two.ok() && also.ok());
  EXPECT_EQ(two->text, also->text);
}

TEST(ElementwiseProgram, GivesEveryProgramItsOwnClass) {
  const auto p = parse_elementwise(kScale);
  std::string other_text = kScale;
  other_text.replace(other_text.find("mulf"), 4, "addf");
  const auto other = parse_elementwise(other_text);
  ASSERT_TRUE(p.ok() && other.ok());
  const ProblemClass a = class_of(*p), b = class_of(*other);
  EXPECT_EQ(a.op, Op::kElementwise);
  EXPECT_EQ(a.a, DType::kF16);
  EXPECT_EQ(a.b, DType::kF32);
  EXPECT_EQ(a.d, DType::kF16);
  EXPECT_FALSE(a == b);
  const Target target;
  EXPECT_NE(key_of(a, CompileConfig(), target, "id").text, key_of(b, CompileConfig(), target, "id").text);
  EXPECT_NE(kernel_name(a, CompileConfig()), kernel_name(b, CompileConfig()));
  EXPECT_FALSE(may_fall_back(a)) << "no generic kernel knows a program";
  EXPECT_TRUE(is_program_of(a, *p));
  EXPECT_FALSE(is_program_of(a, *other));
}

TEST(ElementwiseProgram, RequiresOneInputAlongNIfThereAreFive) {
  const auto five = [](const std::string& last) {
    std::string text = R"({"d":"f32","inputs":[{"dims":"n","dtype":"bf16"},)";
    for (int i = 0; i < 3; ++i) text += R"({"dims":"mn","dtype":"f32"},)";
    return parse_elementwise(text + R"({"dims":")" + last + R"(","dtype":"f32"}],"nodes":[],"yield":4})");
  };
  const auto p = five("nm");
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(p->inputs[0].slot, ElementwiseSlot::kBias);
  EXPECT_EQ(p->inputs[1].slot, ElementwiseSlot::kA);
  EXPECT_EQ(p->inputs[4].slot, ElementwiseSlot::kResidual);
  EXPECT_TRUE(p->inputs[4].along_m);
  EXPECT_EQ(class_of(*p).bias, DType::kBF16);
  const auto none = parse_elementwise(
      R"({"d":"f32","inputs":[{"dims":"mn","dtype":"f32"},{"dims":"mn","dtype":"f32"},{"dims":"mn","dtype":"f32"},)"
      R"({"dims":"mn","dtype":"f32"},{"dims":"m","dtype":"f32"}],"nodes":[],"yield":0})");
  EXPECT_TRUE(absl::IsUnimplemented(none.status())) << none.status();
}

struct Refusal {
  std::string text, cause;
};

TEST(ElementwiseProgram, RefusesInvalidPrograms) {
  const Refusal refusals[] = {
      {"", "program"},
      {"[1", "line"},
      {"[]", "{\"d\", \"inputs\""},
      {R"({"d":"f64","inputs":[],"nodes":[],"yield":0})", "d: dtype \"f64\""},
      {R"({"d":"f32","inputs":[],"nodes":[],"yield":0})", "yield: not one of the 0 values"},
      {R"({"d":"f32","inputs":[{"dims":"mb","dtype":"f32"}],"nodes":[],"yield":0})", "input 0: dims \"mb\""},
      {R"({"d":"f32","inputs":[{"dims":"mn"}],"nodes":[],"yield":0})", "input 0"},
      {R"({"d":"f16","inputs":[{"dims":"mn","dtype":"f32"}],"nodes":[],"yield":0})",
       "yield: value 0 is f32 but d is f16"},
      {with_nodes(R"(["arith.addf","f32",0,2])", 2),
       "node 2 (arith.addf): operand 1 is not one of the values 0 to 1"},
      {with_nodes(R"(["arith.addf","f32",0,-1])", 2), "operand 1 is not one"},
      {with_nodes(R"(["arith.addf","f32",0,0.5])", 2), "operand 1 is not one"},
      {with_nodes(R"(["arith.addf","f32",0])", 2), "the wrong number of operands"},
      {with_nodes(R"(["arith.addf","f32",0,1])", 2), "an operand does not have the type of the result"},
      {with_nodes(R"(["arith.addi","f32",0,0])", 2), "does not support this type"},
      {with_nodes(R"(["arith.addf","f64",0,0])", 2), "type \"f64\""},
      {with_nodes(R"(["math.log","f32",0])", 2), "unknown operation \"math.log\""},
      {with_nodes(R"(["arith.addf","f32",[0],0])", 2), "contains an array or an object"},
      {with_nodes(R"(["arith.cmpf","i1",0,0,"gt"])", 0), "unknown predicate \"gt\""},
      {with_nodes(R"(["arith.cmpf","i1",1,1,"ogt"])", 0), "does not compare these types"},
      {with_nodes(R"(["arith.select","f32",1,0,0])", 2), "its condition is not an i1"},
      {with_nodes(R"(["arith.extsi","i64",1,"i8"])", 0), "is not the operand's type"},
      {with_nodes(R"(["arith.trunci","i64",1])", 0), "does not cast between these types"},
      {with_nodes(R"(["arith.extf","f32",0])", 2), "casts only between f32 and"},
      {with_nodes(R"(["index","index",3])", 0), "an index has the form"},
      {with_nodes(R"(["index","i64",1])", 0), "an index has the form"},
      {with_nodes(R"(["number","i8",128])", 0), "128 does not fit i8"},
      {with_nodes(R"(["number","i64",18446744073709551615])", 0), "is not an integer"},
      {with_nodes(R"(["number","f32","infinity"])", 2), "is not a number"},
      {std::string(70000, ' '), "the limit of 65536"}};
  for (const Refusal& r : refusals) {
    const auto p = parse_elementwise(r.text);
    EXPECT_TRUE(absl::IsInvalidArgument(p.status())) << r.text.substr(0, 200) << ": " << p.status();
    EXPECT_NE(p.status().message().find(r.cause), absl::string_view::npos)
        << r.text.substr(0, 200) << ": " << p.status();
  }
  std::string many = R"(["number","f32",1])";
  for (int i = 0; i < 512; ++i) many += R"(,["number","f32",1])";
  EXPECT_TRUE(absl::IsInvalidArgument(parse_elementwise(with_nodes(many, 2)).status()));
  const std::string deep(60000, '[');
  EXPECT_TRUE(absl::IsInvalidArgument(parse_elementwise(deep).status()));
}

// Every text that parses has a canonical text that parses to itself.
TEST(ElementwiseProgram, ParsesOrRefusesDamagedTexts) {
  const std::string texts[] = {kScale,
                               with_nodes(R"(["index","index",1],["arith.index_cast","i32",2,"index"],)"
                                          R"(["arith.cmpi","i1",3,1,"sge"],["arith.select","f32",4,0,0])",
                                          5)};
  uint64_t state = 1;
  const auto random = [&](size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<size_t>(state >> 33) % below;
  };
  int programs = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = texts[random(2)];
    for (size_t edits = 1 + random(3); edits-- > 0;) {
      const size_t at = random(text.size());
      switch (random(3)) {
        case 0: text[at] = "0123456789\"[]{},.-mnbfi "[random(24)]; break;
        case 1: text.erase(at, 1 + random(4)); break;
        default: text.insert(at, text.substr(random(text.size()), random(12)));
      }
    }
    const auto p = parse_elementwise(text);
    if (!p.ok()) continue;
    ++programs;
    const auto again = parse_elementwise(p->text);
    ASSERT_TRUE(again.ok()) << p->text << ": " << again.status();
    EXPECT_EQ(again->text, p->text);
  }
  EXPECT_GT(programs, 100);
}

ManifestEntry entry_of(const std::string& text) {
  ManifestEntry entry;
  entry.program = std::make_shared<const ElementwiseProgram>(*parse_elementwise(text));
  entry.problem = class_of(*entry.program);
  entry.m_max = INT32_MAX;
  return entry;
}

TEST(ElementwiseProgram, RoundTripsThroughAManifest) {
  Manifest manifest;
  manifest.add(entry_of(kScale));
  ManifestEntry one = entry_of(kScale);
  one.m_max = 0;
  one.problem.alignment = Alignment::k16;
  manifest.add(one);
  const std::string text = manifest_text(manifest);
  const auto read = parse_manifest(text);
  ASSERT_TRUE(read.ok()) << read.status() << text;
  ASSERT_EQ(read->entries.size(), 2u);
  EXPECT_TRUE(read->entries[0] == manifest.entries[0]) << text;
  EXPECT_TRUE(read->entries[1] == manifest.entries[1]) << text;
  ASSERT_NE(read->entries[1].program, nullptr);
  EXPECT_EQ(read->entries[1].program->text, kScale);
}

TEST(ElementwiseProgram, ManifestRefusesATextWithAnotherDigest) {
  const auto refused = [](const std::string& line) {
    const auto read = parse_manifest("{\"lathe_manifest\":1,\"classes\":[" + line + "]}");
    return std::string(read.status().message());
  };
  const std::string line = manifest_line(entry_of(kScale));
  EXPECT_EQ(refused(line), "");
  std::string other = line;
  other.replace(other.find("mulf"), 4, "addf");
  EXPECT_NE(refused(other).find("its digest or its dtypes"), std::string::npos) << refused(other);
  std::string dtype = line;
  dtype.replace(dtype.find("\"b\":\"f32\""), 9, "\"b\":\"i32\"");
  EXPECT_NE(refused(dtype).find("its digest or its dtypes"), std::string::npos) << refused(dtype);
  std::string epilogue = line;
  epilogue.insert(1, "\"activation\":\"relu\",");
  EXPECT_NE(refused(epilogue).find("an elementwise op has only"), std::string::npos) << refused(epilogue);
  EXPECT_NE(refused(R"({"op":"elementwise","d":"f32"})").find("\"text\" is missing"), std::string::npos);
  EXPECT_NE(refused(R"({"op":"argmax","a":"f32","d":"i32","m_max":4,"text":"{}"})").find("has no program"),
            std::string::npos);
}

}  // namespace
}  // namespace lathe
