// What a launch passes to the driver: grid, block, attributes, parameters, tensor maps.
#include "fake_gpu.h"
#include "runtime/gpu/kernel.h"

namespace lathe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GpuLaunch : public FakeGpu {
 protected:
  const fake_driver::Launch& last() const { return state_->launches.back(); }
  std::unique_ptr<Driver> driver_ = open();
};

TEST_F(GpuLaunch, EvaluatesTheGridAndPassesTheBlock) {
  Step step = step_of("k");
  step.grid = {product(1, {{Var::kM, 64}}), product(2, {{Var::kN, 100}}),
               product(1, {{Var::kBatch, 1}, {Var::kSplits, 1}})};
  step.block = {96, 2, 3};
  step.dynamic_shared_memory = product(16, {{Var::kK, 32}});
  const auto kernel = load(*driver_, artifact_of({step}));
  TestLaunch l(*kernel);
  l.resize(65, 201, 100, 5);
  l.launch.config.splits = 3;
  auto* stream = make_stream(primary(0));
  l.launch.stream = stream;
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  ASSERT_EQ(state_->launches.size(), 1u);
  EXPECT_EQ(last().symbol, "k");
  EXPECT_THAT(last().grid, ElementsAre(2, 6, 15));
  EXPECT_THAT(last().block, ElementsAre(96, 2, 3));
  EXPECT_EQ(last().shared, 64u);
  EXPECT_EQ(last().stream, stream);
  EXPECT_EQ(last().context, primary(0));
  EXPECT_TRUE(last().attributes.empty());
}

// The offsets are written by hand, from the table in core/args.h.
TEST_F(GpuLaunch, PassesTheArgumentBlock) {
  const auto kernel = load(*driver_, artifact_of({step_of("k")}));
  TestLaunch l(*kernel);
  ArgumentBlock& a = l.args;
  void** pointers[] = {&a.a, &a.b, &a.c, &a.d, &a.bias, &a.residual, &a.values};
  for (uintptr_t i = 0; i < 7; ++i) *pointers[i] = TestLaunch::at(i + 1);
  a.workspace = a.counters = a.scratch = TestLaunch::at(99);  // set by the driver
  void** scales[] = {&a.scale_a, &a.scale_b, &a.zero_a, &a.zero_b};
  for (uintptr_t i = 0; i < 4; ++i) *scales[i] = TestLaunch::at(i + 11);
  int64_t* longs[] = {&a.lda,      &a.ldb,      &a.ldc,      &a.ldd,      &a.ldr,          &a.stride_a,
                      &a.stride_b, &a.stride_c, &a.stride_d, &a.stride_r, &a.index_offset, &a.form};
  for (int64_t i = 0; i < 12; ++i) *longs[i] = (int64_t{7} << 33) + i;
  int32_t* ints[] = {&a.m, &a.n, &a.k, &a.batch, &a.splits, &a.k_chunk};
  for (int32_t i = 0; i < 6; ++i) *ints[i] = 1000 + i;
  a.alpha = 1.5f;
  a.beta = -2.25f;
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  ASSERT_EQ(last().parameters.size(), 368u);
  for (uintptr_t i = 0; i < 7; ++i) EXPECT_EQ(last().parameter<void*>(i * 8), TestLaunch::at(i + 1)) << i;
  for (uintptr_t i = 7; i < 10; ++i) EXPECT_EQ(last().parameter<void*>(i * 8), nullptr) << i;
  for (uintptr_t i = 10; i < 14; ++i) EXPECT_EQ(last().parameter<void*>(i * 8), TestLaunch::at(i + 1)) << i;
  for (size_t i = 0; i < 12; ++i)
    EXPECT_EQ(last().parameter<int64_t>(112 + i * 8), (int64_t{7} << 33) + static_cast<int64_t>(i)) << i;
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(last().parameter<int32_t>(336 + i * 4), 1000 + static_cast<int32_t>(i)) << i;
  EXPECT_EQ(last().parameter<float>(360), 1.5f);
  EXPECT_EQ(last().parameter<float>(364), -2.25f);
}

TEST_F(GpuLaunch, RunsStepsInOrderAndSkipsEmptyOnes) {
  Step merge = step_of("merge");
  merge.grid[1] = product(1, {{Var::kMerge, 1}});
  const auto kernel = load(*driver_, artifact_of({step_of("partial"), merge}));
  TestLaunch l(*kernel);
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  ASSERT_EQ(state_->launches.size(), 1u);
  l.launch.config.splits = 2;
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  ASSERT_EQ(state_->launches.size(), 3u);
  EXPECT_EQ(state_->launches[1].symbol, "partial");
  EXPECT_EQ(state_->launches[2].symbol, "merge");
}

TEST_F(GpuLaunch, SetsClusterAndDependentLaunch) {
  Step step = step_of("k");
  step.cluster = {2, 1, 4};
  step.attributes = {"pdl"};
  const auto kernel = load(*driver_, artifact_of({step}));
  TestLaunch l(*kernel);
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  ASSERT_EQ(last().attributes.size(), 2u);
  const auto word = [&](size_t attribute, size_t index) {
    uint32_t value;
    std::memcpy(&value, last().attributes[attribute].value.data() + index * 4, 4);
    return value;
  };
  EXPECT_EQ(last().attributes[0].id, 4);  // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
  EXPECT_EQ(word(0, 0), 2u);
  EXPECT_EQ(word(0, 1), 1u);
  EXPECT_EQ(word(0, 2), 4u);
  EXPECT_EQ(last().attributes[1].id, 6);  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
  EXPECT_EQ(word(1, 0), 1u);
}

TEST_F(GpuLaunch, SplitsABatchThatExceedsTheGridLimit) {
  const auto kernel = load(*driver_, artifact_of({step_of("k"), step_of("second")}));
  TestLaunch l(*kernel);
  l.problem.c = DType::kF32;
  l.problem.residual = DType::kBF16;
  l.args.c = TestLaunch::at(3);
  l.args.residual = TestLaunch::at(5);
  l.args.bias = TestLaunch::at(6);
  l.args.stride_b = 0;  // shared by the batch
  l.args.stride_c = 4000;
  l.args.stride_r = 5000;
  l.launch.config.splits = 3;
  const int64_t batch = 50000;  // 21845 * 3 = 65535
  l.resize(3, 32, 64, batch);
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  ASSERT_EQ(state_->launches.size(), 6u);
  int64_t done = 0;
  for (size_t i = 0; i < 6; ++i) {
    const fake_driver::Launch& part = state_->launches[i];
    EXPECT_EQ(part.symbol, i % 2 == 0 ? "k" : "second") << "the steps of a part follow each other";
    const int64_t count = part.parameter<int32_t>(336 + 3 * 4);
    EXPECT_EQ(part.grid[2], static_cast<unsigned>(count * 3));
    EXPECT_LE(part.grid[2], 65535u);
    const auto moved = [&](size_t pointer) {
      return part.parameter<char*>(pointer * 8) -
             static_cast<char*>(TestLaunch::at(pointer == 4   ? 6
                                               : pointer == 5 ? 5
                                                              : pointer + 1));
    };
    EXPECT_EQ(moved(0), done * 1000 * 2);
    EXPECT_EQ(moved(1), 0);
    EXPECT_EQ(moved(2), done * 4000 * 4);
    EXPECT_EQ(moved(3), done * 3000 * 2);
    EXPECT_EQ(moved(4), 0) << "the whole batch shares the bias";
    EXPECT_EQ(moved(5), done * 5000 * 2);
    if (i % 2 == 1) done += count;
  }
  EXPECT_EQ(done, batch);
  EXPECT_EQ(state_->launches[0].grid[2], 65535u) << "the number of parts must be minimal";
}

TEST_F(GpuLaunch, ReportsAGridThatExceedsTheLimitForOneMatrix) {
  Step step = step_of("k");
  step.grid = {constant(1), product(1, {{Var::kN, 1}}), constant(1)};
  const auto kernel = load(*driver_, artifact_of({step}));
  TestLaunch l(*kernel);
  l.resize(3, 65536, 64, 4);
  const absl::Status status = driver_->launch(l.launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(message(status), HasSubstr("k needs a grid of more than 2147483647 by 65535 by 65535"));
  l.resize(3, 65535, 64, 1);
  EXPECT_TRUE(driver_->launch(l.launch).ok());
  EXPECT_EQ(last().grid[1], 65535u);
}

TEST_F(GpuLaunch, RejectsForeignKernelsMissingKernelsAndSlices) {
  const auto kernel = load(*driver_, artifact_of({step_of("k")}));
  auto other = open(1);
  TestLaunch l(*kernel);
  EXPECT_THAT(message(other->launch(l.launch)), HasSubstr("loaded by another device"));
  Launch none = l.launch;
  none.kernel = nullptr;
  EXPECT_EQ(driver_->launch(none).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(driver_->launch_slice(l.launch, {}).code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(driver_->workers(), 1);
}

TEST_F(GpuLaunch, RejectsMisalignedOperands) {
  Artifact artifact = artifact_of({step_of("k")});
  artifact.recipe.pointer_alignment = 16;
  const auto kernel = load(*driver_, artifact);
  TestLaunch l(*kernel);
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  l.args.b = static_cast<char*>(l.args.b) + 8;
  const absl::Status status = driver_->launch(l.launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message(status), HasSubstr("not aligned to the 16 bytes"));
  EXPECT_EQ(state_->launches.size(), 1u);
}

TEST_F(GpuLaunch, ValidatesPointersWhenAsked) {
  DriverOptions options;
  options.validate = true;
  driver_ = open(1, options);
  const auto kernel = load(*driver_, artifact_of({step_of("k")}));
  TestLaunch l(*kernel);
  for (void* p : {l.args.a, l.args.b, l.args.d}) state_->pointers[p] = {2, 1, true};
  EXPECT_TRUE(driver_->launch(l.launch).ok());
  state_->pointers[l.args.b] = {1, 0, true};
  EXPECT_TRUE(driver_->launch(l.launch).ok()) << "pinned host memory";
  state_->pointers[l.args.d] = {2, 3, true};
  absl::Status status = driver_->launch(l.launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message(status), HasSubstr("d is in the memory of device 3, not 1"));
  state_->pointers.erase(l.args.a);
  status = driver_->launch(l.launch);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message(status), HasSubstr("a is in memory that no device can reach"));
  l.problem.op = Op::kArgmax;
  EXPECT_THAT(message(driver_->launch(l.launch)), HasSubstr("x is in memory that no device can reach"));
  EXPECT_EQ(state_->launches.size(), 2u);
  state_->fail_once["cuPointerGetAttributes"] = 700;
  EXPECT_THAT(message(driver_->launch(l.launch)), HasSubstr("context is lost: looking up x"));
}

class GpuTensorMaps : public GpuLaunch {
 protected:
  std::unique_ptr<LoadedKernel> kernel_of(std::vector<TensorMap> maps) {
    Step step = step_of("k");
    step.tensor_maps = std::move(maps);
    step.argument_bytes = parameter_bytes(step.tensor_maps.size());
    return load(*driver_, artifact_of({step}));
  }
};

TEST_F(GpuTensorMaps, EncodesOperandsAndPassesThemAfterTheBlock) {
  const auto kernel = kernel_of(
      {{"a", DType::kF16, Var::kK, Var::kM, 64, 128, 128}, {"d", DType::kF32, Var::kN, Var::kM, 8, 4, 32}});
  TestLaunch l(*kernel);
  l.resize(300, 500, 700, 9);
  l.args.a = TestLaunch::at(11);
  l.args.d = TestLaunch::at(14);
  l.args.lda = 704;
  l.args.stride_a = 704 * 300;
  l.args.ldd = 512;
  l.args.stride_d = 0;
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  ASSERT_EQ(state_->maps.size(), 2u);
  const fake_driver::EncodedMap& a = state_->maps[0];
  EXPECT_EQ(a.type, 6);  // CU_TENSOR_MAP_DATA_TYPE_FLOAT16
  EXPECT_EQ(a.rank, 3u);
  EXPECT_EQ(a.address, TestLaunch::at(11));
  EXPECT_THAT(a.extents, ElementsAre(700, 300, 9));
  EXPECT_THAT(a.strides, ElementsAre(704 * 2, 704 * 300 * 2));
  EXPECT_THAT(a.box, ElementsAre(64, 128, 1));
  EXPECT_THAT(a.steps, ElementsAre(1, 1, 1));
  EXPECT_EQ(a.interleave, 0);
  EXPECT_EQ(a.swizzle, 3);    // 128 bytes
  EXPECT_EQ(a.promotion, 3);  // 256 bytes
  EXPECT_EQ(a.fill, 0);
  const fake_driver::EncodedMap& d = state_->maps[1];
  EXPECT_EQ(d.type, 7);  // CU_TENSOR_MAP_DATA_TYPE_FLOAT32
  EXPECT_THAT(d.extents, ElementsAre(500, 300, 1)) << "a batch stride of 0 is one matrix";
  EXPECT_EQ(d.strides[0], 512u * 4);
  EXPECT_EQ(d.strides[1] % 16, 0u);
  EXPECT_EQ(d.swizzle, 1);  // 32 bytes

  // The maps are where ptxas puts them: at 768 and 896 bytes in the constant bank.
  ASSERT_EQ(last().parameters.size(), 368u + 2 * 128);
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(last().parameter<uint64_t>(368 + 128 * i), i) << "the fake driver writes the map's number";
    EXPECT_EQ(last().parameter<uint64_t>(368 + 128 * i + 120), 0x5a5a5a5a5a5a5a5au);
  }
  EXPECT_EQ(last().parameter<void*>(0), TestLaunch::at(11));
}

TEST_F(GpuTensorMaps, EveryOperandHasItsOwnStrides) {
  const auto kernel = kernel_of({{"b", DType::kBF16, Var::kK, Var::kN, 32, 16, 64},
                                 {"c", DType::kF16, Var::kN, Var::kM, 8, 16, 0},
                                 {"residual", DType::kI8, Var::kN, Var::kM, 16, 16, 0}});
  TestLaunch l(*kernel);
  l.resize(16, 48, 80, 2);
  l.args.b = TestLaunch::at(22);
  l.args.c = TestLaunch::at(23);
  l.args.residual = TestLaunch::at(25);
  l.args.ldb = 88, l.args.ldc = 56, l.args.ldr = 64;
  l.args.stride_b = 88 * 64, l.args.stride_c = 56 * 16, l.args.stride_r = 64 * 32;
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  ASSERT_EQ(state_->maps.size(), 3u);
  const int types[] = {9, 6, 0};  // BFLOAT16, FLOAT16, UINT8
  const uint64_t strides[][2] = {{176, 88 * 64 * 2}, {112, 56 * 16 * 2}, {64, 64 * 32}};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(state_->maps[i].type, types[i]);
    EXPECT_THAT(state_->maps[i].strides, ElementsAre(strides[i][0], strides[i][1]));
  }
  EXPECT_EQ(state_->maps[0].address, TestLaunch::at(22));
  EXPECT_EQ(state_->maps[1].address, TestLaunch::at(23));
  EXPECT_EQ(state_->maps[2].address, TestLaunch::at(25));
}

// The rows of A in a grouped product with COUNTS: M is those of all groups.
TEST_F(GpuTensorMaps, MatricesThatShareTheRowsHaveTheirPart) {
  const auto kernel = kernel_of({{"a", DType::kF16, Var::kK, Var::kM, 64, 128, 128, /*shared_rows=*/1}});
  TestLaunch l(*kernel);
  l.resize(300, 500, 64, 4);
  l.args.a = TestLaunch::at(11);
  l.args.lda = 64, l.args.stride_a = 64 * 80;
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  ASSERT_EQ(state_->maps.size(), 1u);
  EXPECT_THAT(state_->maps[0].extents, ElementsAre(64, 75, 4));
  EXPECT_THAT(state_->maps[0].strides, ElementsAre(128, 128 * 80));
}

TEST_F(GpuTensorMaps, PairsOf4BitElementsAreBytes) {
  const auto kernel = kernel_of({{"a", DType::kF4E2M1, Var::kK, Var::kM, 256, 128, 128}});
  TestLaunch l(*kernel);
  l.resize(300, 500, 672, 2);
  l.args.a = TestLaunch::at(11);
  l.args.lda = 704, l.args.stride_a = 704 * 300;
  ASSERT_TRUE(driver_->launch(l.launch).ok());
  ASSERT_EQ(state_->maps.size(), 1u);
  EXPECT_EQ(state_->maps[0].type, 0);  // UINT8
  EXPECT_THAT(state_->maps[0].extents, ElementsAre(336, 300, 2));
  EXPECT_THAT(state_->maps[0].strides, ElementsAre(352, 352 * 300));
  EXPECT_THAT(state_->maps[0].box, ElementsAre(128, 128, 1));
}

TEST_F(GpuTensorMaps, AreEncodedAgainOnlyAfterAChange) {
  const auto kernel = kernel_of({{"a", DType::kF16, Var::kK, Var::kM, 64, 128, 128}});
  TestLaunch l(*kernel);
  l.args.a = TestLaunch::at(31);
  l.resize(300, 512, 640, 2);
  l.args.lda = 640;
  const auto encodings = [&] {
    const size_t before = state_->maps.size();
    EXPECT_TRUE(driver_->launch(l.launch).ok());
    return state_->maps.size() - before;
  };
  EXPECT_EQ(encodings(), 1u);
  EXPECT_EQ(encodings(), 0u);
  const uint64_t number = last().parameter<uint64_t>(256);
  EXPECT_EQ(encodings(), 0u);
  EXPECT_EQ(last().parameter<uint64_t>(256), number);
  l.resize(301, 512, 640, 2);
  EXPECT_EQ(encodings(), 1u);
  l.args.lda = 648;
  EXPECT_EQ(encodings(), 1u);
  l.args.a = TestLaunch::at(32);
  EXPECT_EQ(encodings(), 1u);
  l.args.stride_a += 8;
  EXPECT_EQ(encodings(), 1u);
  l.resize(301, 4096, 640, 2);
  EXPECT_EQ(encodings(), 0u) << "this map does not depend on n";
}

TEST_F(GpuTensorMaps, ErrorNamesTheOperandAndTheLimit) {
  const auto kernel = kernel_of({{"b", DType::kF16, Var::kK, Var::kN, 64, 128, 128}});
  TestLaunch l(*kernel);
  l.resize(3, 32, 64, 2);
  const auto error = [&](auto change) {
    TestLaunch broken(*kernel);
    broken.resize(3, 32, 64, 2);
    change(broken.args);
    const absl::Status status = driver_->launch(broken.launch);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return message(status);
  };
  EXPECT_THAT(error([](ArgumentBlock& a) { a.b = static_cast<char*>(a.b) + 8; }),
              HasSubstr("tensor map of b: the pointer"));
  EXPECT_THAT(error([](ArgumentBlock& a) { a.b = nullptr; }),
              HasSubstr("tensor map of b: the pointer is NULL"));
  EXPECT_THAT(error([](ArgumentBlock& a) { a.ldb = 65; }),
              HasSubstr("tensor map of b: a stride of 130 bytes"));
  EXPECT_THAT(error([](ArgumentBlock& a) { a.ldb = int64_t{1} << 39; }), HasSubstr("not below 2^40"));
  EXPECT_THAT(error([](ArgumentBlock& a) { a.stride_b = 4; }), HasSubstr("a stride of 8 bytes"));
  state_->fail_once["cuTensorMapEncodeTiled"] = 1;
  l.args.b = TestLaunch::at(41);
  EXPECT_THAT(message(driver_->launch(l.launch)), HasSubstr("tensor map of b: CUDA_ERROR_1 "));
  EXPECT_TRUE(state_->launches.empty());
  EXPECT_TRUE(driver_->launch(l.launch).ok()) << "a failed encoding must not be cached";
}

}  // namespace
}  // namespace lathe
