#include "cli/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lathe::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Shape, Reads) {
  EXPECT_THAT(parse_shape("123x456x51234", "MxNxK").value(), ElementsAre(123, 456, 51234));
  EXPECT_THAT(parse_shape("4x0", "ROWSxN").value(), ElementsAre(4, 0));
}

TEST(Shape, ErrorsShowTheForm) {
  for (const char* bad :
       {"", "123", "1x2", "1x2x3x4", "1x2x", "axbxc", "1x-2x3", "1 x2x3x", "99999999999999999999x1x1"}) {
    const auto shape = parse_shape(bad, "MxNxK");
    ASSERT_FALSE(shape.ok()) << bad;
    EXPECT_THAT(std::string(shape.status().message()), HasSubstr("expected MxNxK, as 123x456x51234")) << bad;
  }
}

Arguments with(std::map<std::string, std::string> flags) {
  Arguments arguments;
  arguments.words = {"2x3x4"};
  arguments.flags = std::move(flags);
  return arguments;
}

TEST(MatmulRequest, Defaults) {
  const MatmulRequest r = matmul_request_with_shape(with({})).value();
  lathe_tuning tuning;
  const lathe_matmul_desc desc = descriptor(r, &tuning);
  EXPECT_EQ(desc.struct_size, sizeof(lathe_matmul_desc));
  EXPECT_EQ(desc.next, nullptr);
  EXPECT_THAT((std::vector<int64_t>{desc.m, desc.n, desc.k, desc.batch}), ElementsAre(2, 3, 4, 1));
  EXPECT_EQ(desc.a.layout, LATHE_ROW_MAJOR);
  EXPECT_EQ(desc.b.layout, LATHE_COLUMN_MAJOR);  // a Linear layer's weight
  EXPECT_EQ(desc.a.dtype, LATHE_F32);
  EXPECT_EQ(desc.epilogue.bias, nullptr);
  EXPECT_EQ(desc.epilogue.residual.data, nullptr);
}

TEST(MatmulRequest, EveryFlagArrives) {
  const MatmulRequest r =
      matmul_request_with_shape(with({{"dtype", "bf16"},
                                      {"out-dtype", "f32"},
                                      {"layout", "tn"},
                                      {"batch", "5"},
                                      {"epilogue", "alpha=0.5,beta=-2,bias,gelu_tanh,residual"},
                                      {"determinism", "batch_invariant"},
                                      {"split-k", "77"},
                                      {"candidate", "3"}}))
          .value();
  lathe_tuning tuning;
  const lathe_matmul_desc desc = descriptor(r, &tuning);
  EXPECT_EQ(desc.a.dtype, LATHE_BF16);
  EXPECT_EQ(desc.b.dtype, LATHE_BF16);
  EXPECT_EQ(desc.d.dtype, LATHE_F32);
  EXPECT_EQ(desc.a.layout, LATHE_COLUMN_MAJOR);
  EXPECT_EQ(desc.b.layout, LATHE_ROW_MAJOR);
  EXPECT_EQ(desc.batch, 5);
  EXPECT_EQ(desc.a.batch_stride, 2 * 4);
  EXPECT_EQ(desc.b.batch_stride, 4 * 3);
  EXPECT_EQ(desc.d.batch_stride, 2 * 3);
  EXPECT_EQ(desc.epilogue.alpha, 0.5f);
  EXPECT_EQ(desc.epilogue.beta, -2);
  EXPECT_NE(desc.epilogue.bias, nullptr);
  EXPECT_EQ(desc.epilogue.bias_dtype, LATHE_F32);
  EXPECT_EQ(desc.epilogue.activation, LATHE_ACTIVATION_GELU_TANH);
  EXPECT_NE(desc.epilogue.residual.data, nullptr);
  EXPECT_EQ(desc.determinism, LATHE_DETERMINISM_BATCH_INVARIANT);
  ASSERT_EQ(desc.next, reinterpret_cast<const lathe_chain*>(&tuning));
  EXPECT_EQ(tuning.split_k, 77);
  EXPECT_EQ(tuning.candidate, 3);
}

TEST(MatmulRequest, RefusesUnknownValues) {
  for (const auto& [flag, value, expected] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"dtype", "f64", "f32|f16|bf16"},
           {"layout", "xn", "nt|nn|tn|tt"},
           {"batch", "-1", "--batch takes a whole number"},
           {"epilogue", "bais", "did you mean 'bias'?"},
           {"epilogue", "alpha=x", "alpha=X"},
           {"determinism", "quick", "run_to_run"},
           {"split-k", "0", "from 1 to 65535"}}) {
    const auto r = matmul_request_with_shape(with({{flag, value}}));
    ASSERT_FALSE(r.ok()) << flag;
    EXPECT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(r.status().message()), HasSubstr(expected));
  }
}

TEST(ArgmaxRequest, EveryFlagArrives) {
  Arguments arguments;
  arguments.words = {"4x151936"};
  arguments.flags = {{"dtype", "f16"}, {"index-dtype", "i32"}, {"values", ""}};
  const lathe_argmax_desc desc = descriptor(argmax_request(arguments).value());
  EXPECT_EQ(desc.rows, 4);
  EXPECT_EQ(desc.n, 151936);
  EXPECT_EQ(desc.x.dtype, LATHE_F16);
  EXPECT_EQ(desc.index_dtype, LATHE_I32);
  EXPECT_NE(desc.values, nullptr);
}

}  // namespace
}  // namespace lathe::cli
