#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/manifest.h"
#include "fake_device.h"
#include "observe/miss_manifest.h"
#include "request/elementwise_programs.h"
#include "request/request.h"

namespace lathe {
namespace {

constexpr RequestContext kCpu = {"cpu", true, MissPolicy::kBlock},
                         kGpu = {"cuda:0", false, MissPolicy::kBlock};
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;

constexpr char kText[] =
    R"({"d":"f32","inputs":[{"dims":"bmn","dtype":"f32"},{"dims":"nm","dtype":"f32"},{"dims":"m","dtype":"f32"},)"
    R"({"dims":"n","dtype":"f32"}],"nodes":[["arith.addf","f32",0,1],["arith.addf","f32",2,3],)"
    R"(["arith.mulf","f32",4,5]],"yield":6})";

// A batch of two matrices of 5 by 8.
struct Elements {
  lathe_program program = {std::make_shared<const ElementwiseProgram>(*parse_elementwise(kText))};
  alignas(16) float x[80] = {}, t[40] = {}, r[8] = {}, c[8] = {}, d[80] = {};
  lathe_elementwise_desc desc = LATHE_ELEMENTWISE_DESC_INIT;
  Elements() {
    desc.program = &program;
    desc.m = 5, desc.n = 8, desc.batch = 2;
    void* const data[] = {x, t, r, c};
    for (size_t i = 0; i < 4; ++i) desc.inputs[i].data = data[i], desc.inputs[i].dtype = LATHE_F32;
    desc.inputs[0].batch_stride = desc.d.batch_stride = 40;
    desc.inputs[1].layout = LATHE_COLUMN_MAJOR;
    desc.d.data = d, desc.d.dtype = LATHE_F32;
  }
  absl::Status read(Request* out, const RequestContext& context = kCpu,
                    Purpose purpose = Purpose::kRun) const {
    return read_elementwise(&desc, purpose, context, nullptr, out);
  }
};

TEST(ReadElementwise, EveryInputHasItsArguments) {
  Elements e;
  Request request;
  ASSERT_TRUE(e.read(&request).ok());
  const ArgumentBlock& a = request.args;
  EXPECT_EQ(a.a, e.x);
  EXPECT_EQ(a.b, e.t);
  EXPECT_EQ(a.c, e.r);
  EXPECT_EQ(a.residual, e.c);
  EXPECT_EQ(a.d, e.d);
  EXPECT_EQ(a.lda, 8);
  EXPECT_EQ(a.ldb, 5) << "of a column";
  EXPECT_EQ(a.ldc, 1);
  EXPECT_EQ(a.ldr, 0) << "every row is the one";
  EXPECT_EQ(a.ldd, 8);
  EXPECT_EQ(a.stride_a, 40);
  EXPECT_EQ(a.stride_b, 0);
  EXPECT_EQ(a.m, 5);
  EXPECT_EQ(a.n, 8);
  EXPECT_EQ(a.batch, 2);
  EXPECT_TRUE(request.key.problem == class_of(*e.program.program));
  EXPECT_EQ(describe(request).substr(0, 40), "elementwise f32 m=5 n=8 batch=2 program=");
}

TEST(ReadElementwise, K16NeedsAlignedInputsAlongN) {
  const auto alignment = [](const std::function<void(Elements*)>& change) {
    Elements e;
    change(&e);
    Request request;
    EXPECT_TRUE(e.read(&request, kGpu).ok());
    return request.key.problem.alignment;
  };
  EXPECT_EQ(alignment([](Elements*) {}), Alignment::k16);
  EXPECT_EQ(alignment([](Elements* e) {
              e->desc.inputs[1].data = e->t + 1;
              e->desc.m = 4;
            }),
            Alignment::k16)
      << "what lies along m is read one by one";
  EXPECT_EQ(alignment([](Elements* e) {
              e->desc.inputs[3].data = e->c + 1;
              e->desc.n = 7;
            }),
            Alignment::kElement);
  EXPECT_EQ(alignment([](Elements* e) { e->desc.n = 7; }), Alignment::kElement) << "rows are 28 bytes apart";
  EXPECT_EQ(alignment([](Elements* e) { e->desc.n = 7, e->desc.m = 1; }), Alignment::k16)
      << "there is one row";
  EXPECT_EQ(alignment([](Elements* e) {
              e->desc.inputs[2].data = reinterpret_cast<char*>(e->r) + 1;
              e->desc.m = 4;
            }),
            Alignment::kByte);
}

TEST(ReadElementwise, RefusalsNameTheCause) {
  using D = lathe_elementwise_desc;
  static const lathe_chain unknown = {sizeof(lathe_chain), nullptr, 99, 0};
  struct {
    std::function<void(D*)> change;
    absl::StatusCode code;
    const char* says;
  } const cases[] = {
      {[](D* d) { d->struct_size = 3; }, kInvalid, "struct_size 3"},
      {[](D* d) { d->program = nullptr; }, kInvalid, "program is NULL"},
      {[](D* d) { d->next = &unknown; }, kUnsupported, "kind 99"},
      {[](D* d) { d->m = -1; }, kInvalid, "m -1 < 0"},
      {[](D* d) { d->n = int64_t{1} << 31; }, kInvalid, "n 2147483648 >"},
      {[](D* d) { d->batch = -2; }, kInvalid, "batch -2 < 0"},
      {[](D* d) { d->inputs[0].struct_size = 3; }, kInvalid, "inputs[0]: struct_size 3"},
      {[](D* d) { d->inputs[0].dtype = LATHE_F16; }, kInvalid,
       "inputs[0]: dtype f16, but the program's is f32"},
      {[](D* d) { d->d.dtype = LATHE_BF16; }, kInvalid, "d: dtype bf16, but the program's is f32"},
      {[](D* d) { d->inputs[1].layout = LATHE_ROW_MAJOR; }, kInvalid, "inputs[1]: the program's dims need a"},
      {[](D* d) { d->inputs[0].layout = LATHE_COLUMN_MAJOR; }, kInvalid, "ROW_MAJOR operand"},
      {[](D* d) { d->d.layout = LATHE_COLUMN_MAJOR; }, kInvalid, "d: the program's dims"},
      {[](D* d) { d->inputs[0].leading_dimension = 7; }, kInvalid, "inputs[0]: leading_dimension 7 < n 8"},
      {[](D* d) { d->inputs[1].leading_dimension = 4; }, kInvalid, "inputs[1]: leading_dimension 4 < m 5"},
      {[](D* d) { d->inputs[3].leading_dimension = 8; }, kInvalid,
       "inputs[3]: leading_dimension 8 is not 0, but the input has no rows"},
      {[](D* d) { d->inputs[1].batch_stride = 40; }, kInvalid,
       "inputs[1]: batch_stride 40 is not 0, but the input has no batch"},
      {[](D* d) { d->inputs[0].batch_stride = -1; }, kInvalid, "inputs[0]: batch_stride -1 < 0"},
      {[](D* d) { d->inputs[0].leading_dimension = INT64_MAX; }, kInvalid, "inputs[0]: spans more than"},
      {[](D* d) { d->d.batch_stride = 39; }, kInvalid, "d overlaps itself"},
      {[](D* d) { d->inputs[2].data = nullptr; }, kInvalid, "inputs[2] is NULL"},
      {[](D* d) { d->d.data = nullptr; }, kInvalid, "d is NULL"},
      {[](D* d) { d->inputs[3].data = d->d.data; }, kInvalid, "d overlaps inputs[3]"},
      {[](D* d) { d->inputs[0].data = static_cast<float*>(d->d.data) + 1; }, kInvalid,
       "d overlaps inputs[0]"},
      {[](D* d) { d->miss_policy = static_cast<lathe_miss_policy>(9); }, kInvalid, "miss_policy 9"}};
  for (const auto& c : cases) {
    Elements e;
    c.change(&e.desc);
    Request request;
    const absl::Status status = e.read(&request);
    EXPECT_EQ(status.code(), c.code) << c.says << ": " << status;
    EXPECT_NE(status.message().find(c.says), absl::string_view::npos) << c.says << ": " << status;
  }
  Elements e;
  e.desc.inputs[0].data = e.d;
  Request request;
  EXPECT_TRUE(e.read(&request).ok()) << "d may be exactly an input";
}

TEST(ReadElementwise, MissReportsAndKeepsTheProgram) {
  FakeDevice fake;
  Elements e;
  std::string entry;
  const auto note = [](void* user, const lathe_miss* miss) {
    *static_cast<std::string*>(user) = miss->entry;
  };
  ASSERT_EQ(lathe_context_set_miss(fake.context.get(), LATHE_MISS_BLOCK, note, &entry), LATHE_OK);
  ASSERT_EQ(lathe_elementwise(fake.device.get(), nullptr, &e.desc), LATHE_OK) << lathe_last_error();
  const auto manifest = parse_manifest("{\"lathe_manifest\":1,\"classes\":[" + entry + "]}");
  ASSERT_TRUE(manifest.ok()) << manifest.status() << entry;
  ASSERT_NE(manifest->entries[0].program, nullptr);
  EXPECT_EQ(manifest->entries[0].program->text, e.program.program->text);
  // Later calls find the program in the context.
  EXPECT_NE(fake.context->programs.find(manifest->entries[0].problem), nullptr);
}

}  // namespace
}  // namespace lathe
