// lathe.hpp and the shared library, as a user's program uses them.
#include <gtest/gtest.h>

#include <cstdio>
#include <lathe/lathe.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

lathe_context_options options(const char* compiler = LATHE_FAKE_COMPILER_DIR "/fake_compiler.so") {
  lathe_context_options o = LATHE_CONTEXT_OPTIONS_INIT;
  o.cache_dir = "";
  o.compiler_library = compiler;
  o.workers = 2;
  return o;
}

TEST(Cpp, HandlesMoveAndDoNotCopy) {
  static_assert(!std::is_copy_constructible_v<lathe::Context> &&
                std::is_nothrow_move_constructible_v<lathe::Context>);
  static_assert(!std::is_copy_constructible_v<lathe::Device> &&
                std::is_nothrow_move_assignable_v<lathe::Device>);
  static_assert(!std::is_copy_constructible_v<lathe::Plan> && std::is_nothrow_move_assignable_v<lathe::Plan>);
  lathe::Context context(options());
  lathe::Device first = context.open("cpu");
  lathe_device* handle = first.get();
  lathe::Device second = std::move(first);
  EXPECT_EQ(second.get(), handle);
  EXPECT_EQ(first.get(), nullptr);
}

TEST(Cpp, BuffersAndStreamsOwnTheirMemory) {
  static_assert(!std::is_copy_constructible_v<lathe::Buffer> &&
                std::is_nothrow_move_assignable_v<lathe::Buffer>);
  static_assert(!std::is_copy_constructible_v<lathe::Stream> &&
                std::is_nothrow_move_assignable_v<lathe::Stream>);
  lathe::Context context(options());
  lathe::Device cpu = context.open("cpu");
  const std::vector<int32_t> source = {3, 1, 4, 1, 5};
  std::vector<int32_t> result(source.size());
  const size_t bytes = source.size() * sizeof(int32_t);
  lathe::Buffer first = cpu.allocate(bytes);
  int32_t* data = first.as<int32_t>();
  lathe::Stream stream = cpu.stream();
  first.upload(source.data(), bytes, stream);
  lathe::Buffer second = std::move(first);
  EXPECT_EQ(second.data(), data);
  EXPECT_EQ(second.bytes(), bytes);
  EXPECT_EQ(first.data(), nullptr);
  second.download(result.data(), bytes, stream);
  stream.synchronize();
  EXPECT_EQ(result, source);
  EXPECT_THROW(cpu.allocate(SIZE_MAX), lathe::Error);
}

TEST(Cpp, MatmulFillsTheDescriptor) {
  std::vector<float> x(2 * 3), w(4 * 3), y(2 * 4), bias(4), c(2 * 4), r(2 * 4);
  lathe::Epilogue e;
  e.alpha = 2.0f;
  e.beta = 3.0f;
  e.c = lathe::row_major(c.data(), 2, 4);
  e.bias = bias.data();
  e.bias_dtype = LATHE_F32;
  e.activation = LATHE_ACTIVATION_GELU;
  e.residual = lathe::row_major(r.data(), 2, 4, 9);
  lathe::CallOptions call;
  call.batch = 5;
  call.determinism = LATHE_DETERMINISM_RUN_TO_RUN;
  call.miss_policy = LATHE_MISS_ERROR;
  call.math = LATHE_MATH_TF32;
  const lathe_matmul_desc d =
      lathe::matmul_desc(lathe::row_major(x.data(), 2, 3), lathe::row_major(w.data(), 4, 3).transposed(),
                         lathe::row_major(y.data(), 2, 4, 8, 100), e, call);
  EXPECT_EQ(d.struct_size, sizeof d);
  EXPECT_EQ(d.m, 2);
  EXPECT_EQ(d.n, 4);
  EXPECT_EQ(d.k, 3);
  EXPECT_EQ(d.batch, 5);
  EXPECT_EQ(d.a.data, x.data());
  EXPECT_EQ(d.a.dtype, LATHE_F32);
  EXPECT_EQ(d.b.layout, LATHE_COLUMN_MAJOR);
  EXPECT_EQ(d.d.leading_dimension, 8);
  EXPECT_EQ(d.d.batch_stride, 100);
  EXPECT_EQ(d.c.data, c.data());
  EXPECT_EQ(d.epilogue.alpha, 2.0f);
  EXPECT_EQ(d.epilogue.beta, 3.0f);
  EXPECT_EQ(d.epilogue.bias, bias.data());
  EXPECT_EQ(d.epilogue.activation, LATHE_ACTIVATION_GELU);
  EXPECT_EQ(d.epilogue.residual.leading_dimension, 9);
  EXPECT_EQ(d.determinism, LATHE_DETERMINISM_RUN_TO_RUN);
  EXPECT_EQ(d.miss_policy, LATHE_MISS_ERROR);
  EXPECT_EQ(d.math, LATHE_MATH_TF32);
}

TEST(Cpp, IntegerProductsAreExact) {
  const std::vector<int8_t> x(2 * 3), w(3 * 4);
  std::vector<int32_t> y(2 * 4);
  const lathe_matmul_desc d = lathe::matmul_desc(
      lathe::row_major(x.data(), 2, 3), lathe::row_major(w.data(), 3, 4), lathe::row_major(y.data(), 2, 4));
  EXPECT_EQ(d.a.dtype, LATHE_I8);
  EXPECT_EQ(d.b.dtype, LATHE_I8);
  EXPECT_EQ(d.d.dtype, LATHE_I32);
}

TEST(Cpp, MismatchedShapesThrow) {
  float data[64] = {};
  const auto matrix = [&](int64_t rows, int64_t columns) { return lathe::row_major(data, rows, columns); };
  EXPECT_NO_THROW(lathe::matmul_desc(matrix(2, 3), matrix(3, 4), matrix(2, 4)));
  EXPECT_THROW(lathe::matmul_desc(matrix(1, 3), matrix(3, 4), matrix(2, 4)), lathe::Error);
  EXPECT_THROW(lathe::matmul_desc(matrix(2, 3), matrix(4, 3), matrix(2, 4)), lathe::Error);
  lathe::Epilogue e;
  e.beta = 1.0f;
  e.c = matrix(4, 2);
  try {
    lathe::matmul_desc(matrix(2, 3), matrix(3, 4), matrix(2, 4), e);
    FAIL() << "no error";
  } catch (const lathe::Error& error) {
    EXPECT_EQ(error.status(), LATHE_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.what()).find("c is 4 by 2, not 2 by 4"), std::string::npos) << error.what();
  }
}

TEST(Cpp, ArgmaxOfABatchThrows) {
  float data[64] = {};
  int32_t indices[8] = {};
  const lathe::Matrix x = lathe::row_major(data, 2, 4), w = lathe::row_major(data, 4, 3);
  const auto refusal = [](const auto& make) -> std::string {
    try {
      make();
    } catch (const lathe::Error& error) {
      EXPECT_EQ(error.status(), LATHE_INVALID_ARGUMENT);
      return error.what();
    }
    return "";
  };
  lathe::CallOptions call;
  EXPECT_EQ(refusal([&] { lathe::argmax_desc(x, indices, nullptr, 0, call); }), "");
  EXPECT_EQ(refusal([&] { lathe::matmul_argmax_desc(x, w, indices, {}, call); }), "");
  call.batch = 4;
  EXPECT_EQ(refusal([&] { lathe::argmax_desc(x, indices, nullptr, 0, call); }),
            "INVALID_ARGUMENT argmax: batch is 4, not 1");
  EXPECT_EQ(refusal([&] { lathe::matmul_argmax_desc(x, w, indices, {}, call); }),
            "INVALID_ARGUMENT matmul_argmax: batch is 4, not 1");
}

TEST(Cpp, ErrorsCarryStatusAndMessage) {
  lathe::Context context(options("/nowhere/liblathe-compiler.so"));
  lathe::Device cpu = context.open("cpu");
  float x[2] = {1, 2}, w[2] = {3, 4}, y[1] = {};
  try {
    lathe::matmul(cpu, lathe::row_major(x, 1, 2), lathe::row_major(w, 2, 1), lathe::row_major(y, 1, 1));
    FAIL() << "no error";
  } catch (const lathe::Error& error) {
    EXPECT_EQ(error.status(), LATHE_NOT_AVAILABLE);
    EXPECT_NE(std::string(error.what()).find("/nowhere/liblathe-compiler.so"), std::string::npos)
        << error.what();
  }
  EXPECT_THROW(context.open("abacus"), lathe::Error);
  EXPECT_THROW(context.describe("/nowhere.json"), lathe::Error);
}

TEST(Cpp, PackedBatchesAreOneWholeWeightApart) {
  lathe::Context context(options());
  const lathe::Device cpu = context.open("cpu");
  const std::pair<lathe_dtype, int64_t> dtypes[] = {
      {LATHE_F32, 4}, {LATHE_F16, 2}, {LATHE_BF16, 2}, {LATHE_I8, 1}};
  for (const auto& [dtype, bytes] : dtypes) {
    for (int64_t n : {8, 64}) {
      const int64_t k = 64;
      const std::vector<char> weights(static_cast<size_t>(2 * n * k * bytes));
      lathe::Matrix weight = lathe::row_major(reinterpret_cast<const float*>(weights.data()), n, k);
      weight.dtype = dtype;
      weight.batch_stride = n * k;
      const lathe::PackedWeight packed(cpu, weight.transposed(), 2);
      EXPECT_EQ(packed.matrix().batch_stride * bytes * 2, static_cast<int64_t>(packed.bytes()))
          << "dtype " << dtype << ", " << n << " columns";
    }
  }
}

TEST(Cpp, RunsRequestsThatNeedNoKernel) {
  lathe::Context context(options());
  lathe::Device cpu = context.open("cpu");
  std::vector<float> bias = {1, -2, 3}, y(6);
  lathe::Epilogue e;
  e.bias = bias.data();
  e.bias_dtype = LATHE_F32;
  e.activation = LATHE_ACTIVATION_RELU;
  lathe::matmul(cpu, lathe::row_major(y.data(), 2, 0), lathe::row_major(y.data(), 0, 3),
                lathe::row_major(y.data(), 2, 3), e);
  EXPECT_EQ(y, (std::vector<float>{1, 0, 3, 1, 0, 3}));
  std::vector<int64_t> indices;
  lathe::argmax(cpu, lathe::row_major(y.data(), 0, 3), indices.data());
}

TEST(Cpp, Elementwise) {
  lathe::Context context(options());
  lathe::Device device = context.describe(LATHE_FACTS_DIR "/h200.json");
  const lathe::Program program(
      R"({"d":"f32","inputs":[{"dims":"mn","dtype":"f32"},{"dims":"n","dtype":"f32"}],)"
      R"("nodes":[["arith.mulf","f32",0,1]],"yield":2})");
  EXPECT_THROW(lathe::Program("{}"), lathe::Error);
  float x[12] = {}, y[4] = {};
  const lathe_elementwise_desc desc = lathe::elementwise_desc(
      program.get(), {lathe::row_major(x, 3, 4), lathe::row_major(y, 1, 4)}, lathe::row_major(x, 3, 4));
  EXPECT_NE(device.plan(desc).explain().find("elementwise f32 m=3 n=4 batch=1 program="), std::string::npos);
  lathe::Manifest manifest;
  manifest.add(desc, "scaled");
  EXPECT_EQ(device.classes(manifest).size(), 3u) << "one for each alignment";
  EXPECT_EQ(device.warm(manifest).compiled, 3u);
  // The manifest's text is all that another device needs.
  lathe::Context other(options());
  lathe::Manifest read;
  read.parse(manifest.text());
  EXPECT_EQ(other.describe(LATHE_FACTS_DIR "/h200.json").warm(read).compiled, 3u);
}

TEST(Cpp, PlansExplainsDumpsAndWarmsUpADescribedDevice) {
  lathe::Context context(options());
  lathe::Device device = context.describe(LATHE_FACTS_DIR "/h200.json");
  float data[64] = {};
  const lathe_matmul_desc desc = lathe::matmul_desc(
      lathe::row_major(data, 2, 4), lathe::row_major(data, 4, 3), lathe::row_major(data + 32, 2, 3));
  lathe::Plan plan = device.plan(desc);
  EXPECT_NE(plan.explain().find("\"candidates\""), std::string::npos);
  const auto stages = plan.dump();
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].first, "00-payload.mlir");
  EXPECT_EQ(stages[0].second, "payload");
  EXPECT_THROW(plan.run(desc), lathe::Error);
  EXPECT_THROW(plan.workspace_bytes(), lathe::Error);
  lathe::Manifest manifest;
  manifest.add(desc, 3, "weight");
  // Three classes of M with rows aligned to 16 bytes, three with other rows, and one for unaligned pointers.
  EXPECT_EQ(device.classes(manifest).size(), 3u + 3 + 1);
  const lathe_warmup_report report = device.warm(desc, 3);
  EXPECT_EQ(report.compiled, 3u + 3 + 1);
  int64_t index = 0;
  lathe::Plan argmax = device.plan(lathe::argmax_desc(lathe::row_major(data, 1, 64), &index));
  EXPECT_NE(argmax.explain().find("argmax"), std::string::npos);
  EXPECT_GE(device.warm(lathe::argmax_desc(lathe::row_major(data, 1, 64), &index)).classes, 1u);
  EXPECT_NE(device.fingerprint(), context.open("cpu").fingerprint());
  EXPECT_GE(context.statistics().compiles, 3u);
  EXPECT_NE(context.cache_list().find("\"entries\""), std::string::npos);
  EXPECT_EQ(context.cache_clear(), 0u) << "there is no disk store";
  EXPECT_NE(context.devices().find("\"cuda"), std::string::npos);
}

TEST(Cpp, MissesFailAndCallTheCallback) {
  lathe::Context context(options());
  lathe::Device cpu = context.open("cpu");
  std::string problem;
  const auto told = [](void* user, const lathe_miss* miss) {
    *static_cast<std::string*>(user) = miss->problem;
  };
  context.set_miss(LATHE_MISS_ERROR, told, &problem);
  float x[2] = {1, 2}, w[2] = {3, 4}, y[1] = {};
  try {
    lathe::matmul(cpu, lathe::row_major(x, 1, 2), lathe::row_major(w, 2, 1), lathe::row_major(y, 1, 1));
    FAIL() << "no error";
  } catch (const lathe::Error& error) {
    EXPECT_EQ(error.status(), LATHE_MISS);
  }
  EXPECT_NE(problem.find("matmul f32"), std::string::npos) << problem;
  EXPECT_NE(context.metrics().find("# TYPE lathe_"), std::string::npos) << context.metrics();
}

TEST(Cpp, WritesAndListsBundles) {
  const std::string path = testing::TempDir() + "lathe_cpp_test.bundle";
  EXPECT_EQ(lathe::write_bundle(path, {}).entries, 0u);
  EXPECT_NE(lathe::list_bundle(path).find("\"entries\":[]"), std::string::npos) << lathe::list_bundle(path);
  EXPECT_THROW(lathe::write_bundle(path, {path + ".none"}), lathe::Error);
  EXPECT_EQ(lathe::write_bundle(path, {path}, "sm_90a").entries, 0u);
  EXPECT_EQ(std::remove(path.c_str()), 0);
  EXPECT_THROW(lathe::list_bundle(path), lathe::Error);
}

TEST(Cpp, InspectsPayloads) {
  lathe::Context context(options());
  EXPECT_EQ(context.inspect("p.mlir", "{\"functions\":[]}"), "{\"functions\":[]}")
      << "the fake compiler's answer is the text";
  EXPECT_THROW(context.inspect("p.mlir", "no JSON"), lathe::Error);
}

TEST(Cpp, ManifestsKeepNotes) {
  lathe::Manifest manifest;
  manifest.note("model", "a name");
  EXPECT_NE(manifest.text().find("\"a name\""), std::string::npos) << manifest.text();
}

}  // namespace
