#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <tuple>

#include "cli/ops.h"
#include "cli/request_flags.h"

namespace lathe::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Shape, ParsesSizes) {
  EXPECT_THAT(parse_shape("123x456x51234", "MxNxK").value(), ElementsAre(123, 456, 51234));
  EXPECT_THAT(parse_shape("4x0", "ROWSxN").value(), ElementsAre(4, 0));
}

TEST(Shape, ErrorsShowTheExpectedForm) {
  for (const char* bad :
       {"", "123", "1x2", "1x2x3x4", "1x2x", "axbxc", "1x-2x3", "1 x2x3x", "99999999999999999999x1x1"}) {
    const auto shape = parse_shape(bad, "MxNxK");
    ASSERT_FALSE(shape.ok()) << bad;
    EXPECT_THAT(std::string(shape.status().message()), HasSubstr("expected MxNxK, such as 123x456x51234"))
        << bad;
  }
}

Arguments with(std::map<std::string, std::string> flags) {
  Arguments arguments;
  arguments.words = {"2x3x4"};
  arguments.flags = std::move(flags);
  return arguments;
}

TEST(MatmulRequest, HasDefaults) {
  const reference::MatmulRequest r = matmul_request(with({})).value();
  lathe_tuning tuning;
  const lathe_matmul_desc desc = descriptor(r, &tuning);
  EXPECT_EQ(desc.struct_size, sizeof(lathe_matmul_desc));
  EXPECT_EQ(desc.next, nullptr);
  EXPECT_THAT((std::vector<int64_t>{desc.m, desc.n, desc.k, desc.batch}), ElementsAre(2, 3, 4, 1));
  EXPECT_EQ(desc.a.layout, LATHE_ROW_MAJOR);
  EXPECT_EQ(desc.b.layout, LATHE_COLUMN_MAJOR);  // the weight of a Linear layer
  EXPECT_EQ(desc.a.dtype, LATHE_F32);
  EXPECT_EQ(desc.epilogue.bias, nullptr);
  EXPECT_EQ(desc.epilogue.residual.data, nullptr);
}

TEST(MatmulRequest, DescriptorHasTheValueOfEveryFlag) {
  const reference::MatmulRequest r =
      matmul_request(with({{"dtype", "bf16"},
                           {"out-dtype", "f32"},
                           {"layout", "tn"},
                           {"batch", "5"},
                           {"epilogue", "alpha=0.5,beta=-2,bias,gelu_tanh,residual"},
                           {"determinism", "batch_invariant"},
                           {"padding", "7"},
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
  // A is stored as 4 by 2: a row takes 2 + 7 elements, and a matrix 4 rows and 7 more elements.
  EXPECT_EQ(desc.a.leading_dimension, 2 + 7);
  EXPECT_EQ(desc.b.leading_dimension, 3 + 7);
  EXPECT_EQ(desc.d.leading_dimension, 3 + 7);
  EXPECT_EQ(desc.a.batch_stride, 4 * 9 + 7);
  EXPECT_EQ(desc.b.batch_stride, 4 * 10 + 7);
  EXPECT_EQ(desc.d.batch_stride, 2 * 10 + 7);
  EXPECT_EQ(desc.c.batch_stride, 2 * 10 + 7);
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
           {"dtype", "f64", "f32|f16|bf16|i8|f8e4m3|f8e5m2|f8e4m3fnuz|f8e5m2fnuz"},
           {"out-dtype", "i8", "f32|f16|bf16|i32"},
           {"math", "fast", "strict|tf32|int8|bf16"},
           {"fill", "ones", "normal|integers|special"},
           {"misalign", "256", "from 0 to 255"},
           {"in-place", "d", "none|c|residual"},
           {"in-place", "c", "needs a beta"},
           {"in-place", "residual", "needs residual"},
           {"broadcast", "c", "none|a|b|ab"},
           {"layout", "xn", "nn|tn|nt|tt"},
           {"batch", "-1", "--batch takes a whole number"},
           {"epilogue", "bais", "did you mean 'bias'?"},
           {"epilogue", "alpha=x", "alpha=X"},
           {"determinism", "quick", "run_to_run"},
           {"split-k", "0", "from 1 to 65535"}}) {
    const auto r = matmul_request(with({{flag, value}}));
    ASSERT_FALSE(r.ok()) << flag;
    EXPECT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(r.status().message()), HasSubstr(expected));
  }
}

TEST(MatmulRequest, QuantisedOperandsGiveF32ByDefault) {
  for (const auto& [dtype, out] :
       std::vector<std::pair<std::string, lathe_dtype>>{{"f32", LATHE_F32},
                                                        {"f16", LATHE_F16},
                                                        {"bf16", LATHE_BF16},
                                                        {"i8", LATHE_F32},
                                                        {"f8e4m3", LATHE_F32},
                                                        {"f8e5m2", LATHE_F32},
                                                        {"f8e4m3fnuz", LATHE_F32},
                                                        {"f8e5m2fnuz", LATHE_F32}}) {
    EXPECT_EQ(matmul_request(with({{"dtype", dtype}})).value().out_dtype, out) << dtype;
  }
  EXPECT_EQ(matmul_request(with({{"dtype", "i8"}, {"out-dtype", "i32"}})).value().out_dtype, LATHE_I32);
}

// The words and flags of a command, as a shell would pass them.
Arguments arguments_of(const std::string& command) {
  Arguments arguments;
  std::istringstream words(command);
  std::string word, flag;
  words >> word;  // the op
  words >> word;
  arguments.words = {word};
  while (words >> word) {
    if (word.rfind("--", 0) == 0) {
      flag = word.substr(2);
      arguments.flags[flag] = "";
    } else {
      arguments.flags[flag] = word;
    }
  }
  return arguments;
}

TEST(MatmulRequest, CommandReadsBackAsTheSameRequest) {
  std::vector<reference::MatmulRequest> requests(6);
  requests[0].m = 123;
  requests[0].n = 456;
  requests[0].k = 51234;
  requests[1].dtype = LATHE_I8;
  requests[1].out_dtype = LATHE_I32;
  requests[1].trans_a = true;
  requests[1].trans_b = false;
  requests[2].math = LATHE_MATH_TF32;
  requests[2].trans_a = true;
  requests[2].alpha = 0.1f;
  requests[2].beta = -1.0f / 3;
  requests[2].c_in_place = true;
  requests[2].activation = LATHE_ACTIVATION_GELU_TANH;
  requests[3].bias = requests[3].residual = requests[3].residual_in_place = true;
  requests[3].out_dtype = LATHE_BF16;
  requests[3].batch = 3;
  requests[3].broadcast_b = true;
  requests[4].determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
  requests[4].b_dtype = LATHE_BF16;
  requests[4].math = LATHE_MATH_BF16;
  requests[4].padding = 5;
  requests[4].misalign = 2;
  requests[4].fill = reference::Fill::kSpecial;
  requests[5].dtype = LATHE_F8_E4M3;
  requests[5].out_dtype = LATHE_F32;
  requests[5].split_k = 77;
  requests[5].candidate = 12;
  requests[5].broadcast_a = requests[5].broadcast_b = true;
  for (const reference::MatmulRequest& r : requests) {
    const std::string command = command_of(r);
    EXPECT_EQ(command.rfind("matmul ", 0), 0u);
    EXPECT_TRUE(matmul_request(arguments_of(command)).value() == r) << command;
  }
  EXPECT_EQ(command_of(requests[0]), "matmul 123x456x51234");
}

TEST(GroupedMatmulRequest, CommandReadsBackAsTheSameRequest) {
  for (const char* command :
       {"grouped_matmul 2x3x4", "grouped_matmul 5x8x32 --experts 128 --used 8 --own-rows --sum --dtype bf16",
        "grouped_matmul 5x8x32 --gate clamped --gate-layout interleaved --out-dtype bf16 --bias",
        "grouped_matmul 7x8x32 --grouping offsets --experts 3 --dtype f16 --b-dtype q4_k --math int8",
        "grouped_matmul 7x8x32 --grouping row_ids --layout nn --activation silu --routing random",
        "grouped_matmul 7x8x32 --grouping counts --packed --determinism batch_invariant --padding 3",
        "grouped_matmul 7x128x256 --a-format f8_128 --b-format mxf4 --fill integers",
        "grouped_matmul 7x128x256 --dtype bf16 --b-format awq"}) {
    const auto request = grouped_matmul_request(arguments_of(command));
    ASSERT_TRUE(request.ok()) << command << ": " << request.status();
    EXPECT_EQ(command_of(*request), command);
    EXPECT_TRUE(grouped_matmul_request(arguments_of(command_of(*request))).value() == *request) << command;
  }
}

TEST(GroupedMatmulRequest, DescriptorHasTheValueOfEveryFlag) {
  const auto r = grouped_matmul_request(arguments_of(
      "grouped_matmul 2x6x4 --experts 5 --used 3 --own-rows --sum --gate gelu --gate-layout interleaved "
      "--dtype bf16 --out-dtype f16 --bias --padding 7"));
  ASSERT_TRUE(r.ok()) << r.status();
  lathe_tuning tuning;
  const lathe_grouped_matmul_desc desc = descriptor(*r, &tuning);
  EXPECT_THAT((std::vector<int64_t>{desc.m, desc.n, desc.k, desc.groups, desc.used}),
              ElementsAre(2, 6, 4, 5, 3));
  EXPECT_EQ(desc.grouping, LATHE_GROUPING_INDEXED);
  EXPECT_EQ(desc.gate, LATHE_GATE_GELU);
  EXPECT_EQ(desc.gate_layout, LATHE_GATE_INTERLEAVED);
  EXPECT_NE(desc.router_weights, nullptr);
  EXPECT_EQ(desc.a.leading_dimension, 4 + 7);
  EXPECT_EQ(desc.a.batch_stride, 2 * 11 + 7);
  EXPECT_EQ(desc.b.dtype, LATHE_BF16);
  EXPECT_EQ(desc.b.layout, LATHE_COLUMN_MAJOR);
  EXPECT_EQ(desc.b.batch_stride, 6 * 4);
  EXPECT_EQ(desc.d.dtype, LATHE_F16);
  EXPECT_EQ(desc.d.leading_dimension, 3 + 7) << "D has one column for each pair of g and u";
  EXPECT_NE(desc.epilogue.bias, nullptr);
  EXPECT_EQ(descriptor(grouped_matmul_request(arguments_of("grouped_matmul 2x6x4")).value(), &tuning)
                .a.batch_stride,
            0)
      << "the slots of a token share its row";
}

TEST(GroupedMatmulRequest, RefusesFlagsThatDoNotGoTogether) {
  for (const auto& [flags, cause] : std::vector<std::pair<std::string, std::string>>{
           {"--grouping counts --used 2", "--used needs --grouping indexed"},
           {"--grouping offsets --sum", "--sum needs --grouping indexed"},
           {"--experts 0", "--experts takes a whole number from 1"},
           {"--gate swish", "none|silu|gelu|gelu_tanh|relu|clamped"},
           {"--sum --fill special", "--fill special"},
           {"--a-format mxf8", "--a-format needs --b-format"},
           {"--b-format mxf8 --packed", "--b-format does not go with --packed"}}) {
    const auto r = grouped_matmul_request(arguments_of("grouped_matmul 2x4x4 " + flags));
    ASSERT_FALSE(r.ok()) << flags;
    EXPECT_EQ(r.status().code(), absl::StatusCode::kInvalidArgument) << flags;
    EXPECT_THAT(std::string(r.status().message()), HasSubstr(cause));
  }
}

TEST(ArgmaxRequest, CommandReadsBackAsTheSameRequest) {
  std::vector<reference::ArgmaxRequest> requests(3);
  requests[0].rows = 4;
  requests[0].n = 151936;
  requests[1].dtype = LATHE_BF16;
  requests[1].index_dtype = LATHE_I32;
  requests[1].values = true;
  requests[1].index_offset = -7;
  requests[1].padding = 3;
  requests[2].determinism = LATHE_DETERMINISM_RUN_TO_RUN;
  requests[2].misalign = 1;
  requests[2].fill = reference::Fill::kIntegers;
  requests[2].candidate = 2;
  for (const reference::ArgmaxRequest& r : requests) {
    const std::string command = command_of(r);
    EXPECT_TRUE(argmax_request(arguments_of(command)).value() == r) << command;
  }
  EXPECT_EQ(command_of(requests[0]), "argmax 4x151936");
}

TEST(ArgmaxRequest, DescriptorHasTheValueOfEveryFlag) {
  Arguments arguments;
  arguments.words = {"4x151936"};
  arguments.flags = {{"dtype", "f16"}, {"index-dtype", "i32"}, {"values", ""}};
  lathe_tuning tuning;
  const lathe_argmax_desc desc = descriptor(argmax_request(arguments).value(), &tuning);
  EXPECT_EQ(desc.rows, 4);
  EXPECT_EQ(desc.n, 151936);
  EXPECT_EQ(desc.x.dtype, LATHE_F16);
  EXPECT_EQ(desc.index_dtype, LATHE_I32);
  EXPECT_NE(desc.values, nullptr);
}

}  // namespace
}  // namespace lathe::cli
