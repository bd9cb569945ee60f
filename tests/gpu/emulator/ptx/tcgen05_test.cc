// tcgen05: products of each kind with block scales, and the mistakes that a kernel can make.
#include <cmath>

#include "gmock/gmock.h"
#include "tests/gpu/emulator/ptx/harness.h"

namespace lathe::ptx {
namespace {

using ::testing::HasSubstr;

constexpr std::array<uint32_t, 3> kOne = {1, 1, 1}, kWarpgroup = {128, 1, 1};
constexpr uint32_t kBase = 1024, kRow = 128, kLines = 128;

struct Kind {
  const char* name;
  uint32_t scales;  // of an instruction
  uint32_t a, b;    // element types of the instruction descriptor
  bool powers_of_two;
  double (*a_value)(uint32_t);
  double (*b_value)(uint32_t);
  uint32_t element_bits;
};
double value_e2m1(uint32_t code) {
  constexpr double kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  return code & 8 ? -kValues[code & 7] : kValues[code & 7];
}
const Kind kKinds[] = {{"mxf8f6f4", 1, 0, 0, true, value_e4m3, value_e4m3, 8},
                       {"mxf8f6f4", 1, 1, 0, true, value_e5m2, value_e4m3, 8},
                       {"mxf4", 2, 1, 1, true, value_e2m1, value_e2m1, 4},
                       {"mxf4nvf4", 2, 1, 1, true, value_e2m1, value_e2m1, 4},
                       {"mxf4nvf4", 4, 1, 1, false, value_e2m1, value_e2m1, 4},
                       {"mxf8f6f4", 1, 1, 5, true, value_e5m2, value_e2m1, 8},
                       {"mxf8f6f4", 1, 5, 0, true, value_e2m1, value_e4m3, 8}};

// 128 bytes of K of A and B, their scales in tiles of 512 bytes, and what the kernel does with them.
class Product {
 public:
  Product(const Kind& kind, uint32_t n) : kind_(kind), n_(n), tiles_(kind.scales), halves_((n + 127) / 128) {
    fill(0, kLines, kind.a == 1 && kind.element_bits == 8 ? 0x7b : 0x7e);
    fill(a_bytes(), n, 0x7e);
    image_.resize(scales_at() + tiles_ * (1 + halves_) * 512);
    for (size_t i = scales_at(); i < image_.size(); ++i)
      image_[i] = static_cast<uint8_t>(kind.powers_of_two ? random_int(120, 134) : random_int(8, 100));
    image_.resize((image_.size() + 2047) / 2048 * 2048);  // the threads copy 2 KiB at a time
  }

  // Parts of the kernel that a test leaves out or replaces.
  std::string proxy_fence = "fence.proxy.async;", fence_after = "tcgen05.fence::after_thread_sync;",
              wait_load = "tcgen05.wait::ld.sync.aligned;",
              free = "@%p2 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r10, 512;";
  uint64_t flipped = 0;       // bits of the operands' descriptor
  uint32_t flipped_bits = 0;  // bits of the instruction descriptor
  bool waits = true;

  // D = A B, then D += A B.
  absl::Status run(AsyncPolicy policy, uint64_t seed) {
    Program program(text());
    EXPECT_TRUE(program.parse_status().ok()) << program.parse_status();
    program.dynamic_shared = static_cast<uint32_t>(image_.size()) + 1024;
    program.options.async = policy;
    program.options.seed = seed;
    out_.assign(size_t{kLines} * n_, 0);
    program.buffer(image_);
    program.buffer(out_);
    return program.run(kOne, kWarpgroup);
  }
  bool is_right() const {
    const std::vector<double> a = line_values(0, kLines), b = line_values(1, n_);
    for (uint32_t i = 0; i < kLines; ++i)
      for (uint32_t j = 0; j < n_; ++j) {
        double sum = 0, magnitude = 0;
        for (uint32_t k = 0; k < elements(); ++k) {
          const double x = 2 * a[i * elements() + k] * b[j * elements() + k];
          sum += x, magnitude += std::fabs(x);
        }
        if (!(std::fabs(static_cast<double>(out_[i * n_ + j]) - sum) <= 1e-6 * magnitude)) return false;
      }
    return true;
  }

 private:
  uint32_t elements() const { return kRow * 8 / kind_.element_bits; }
  uint32_t a_bytes() const { return kLines * kRow; }
  uint32_t scales_at() const { return a_bytes() + n_ * kRow; }
  void fill(size_t from, uint32_t lines, int most) {
    image_.resize(from + size_t{lines} * kRow);
    for (size_t i = from; i < image_.size(); ++i)
      image_[i] = static_cast<uint8_t>(kind_.element_bits == 4 ? random_int(0, 255)
                                                               : random_int(0, most) | random_int(0, 1) << 7);
  }
  // The 128-byte swizzle exchanges chunks of 16 bytes within 8 rows. Beside fp8, 16 elements of 4 bits are in the first
  // half of a chunk.
  uint32_t element(uint32_t operand, uint32_t line, uint32_t k) const {
    const bool padded = (operand == 0 ? kind_.a : kind_.b) == 5;
    const uint32_t byte = padded ? k / 16 * 16 + k % 16 / 2 : k * kind_.element_bits / 8;
    const uint32_t chunk = (byte / 16) ^ (line % 8), from = operand == 0 ? 0 : a_bytes();
    const uint8_t bits = image_[from + line * kRow + chunk * 16 + byte % 16];
    if (kind_.element_bits == 8 && !padded) return bits;
    return k % 2 == 0 ? bits & 15 : bits >> 4;
  }
  double scale(uint32_t operand, uint32_t line, uint32_t k) const {
    const uint32_t block = k / (elements() / 4 / kind_.scales);  // of the 128 bytes
    const uint32_t tile = operand == 0 ? block / 4 : tiles_ + block / 4 * halves_ + line / 128;
    const uint8_t bits = image_[scales_at() + tile * 512 + line % 32 * 16 + line % 128 / 32 * 4 + block % 4];
    return kind_.powers_of_two ? std::ldexp(1.0, bits - 127) : value_e4m3(bits);
  }

  std::vector<double> line_values(uint32_t operand, uint32_t lines) const {
    std::vector<double> values;
    for (uint32_t line = 0; line < lines; ++line)
      for (uint32_t k = 0; k < elements(); ++k) {
        const uint32_t code = element(operand, line, k);
        values.push_back((operand == 0 ? kind_.a_value : kind_.b_value)(code)*scale(operand, line, k));
      }
    return values;
  }

  std::string text() const {
    const auto descriptor = [&](uint32_t at, uint64_t stride, uint64_t swizzle) {
      return ((kBase + 1024 + at) / 16 | (stride / 16) << 32 | uint64_t{1} << 46 | swizzle << 61) ^ flipped;
    };
    std::string t = absl::StrCat(
        ".version 8.7\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 d[];\n.visible "
        ".entry "
        "k(.param .u64 p0, .param .u64 p1) .reqntid 128, 1, 1 {\n.reg .b32 %r<400>; .reg .b64 %rd<40>; .reg "
        ".pred %p<9>; ld.param.b64 %rd0, [p0]; ld.param.b64 %rd1, [p1];\nmov.u32 %r0, %tid.x; mov.b32 %r1, "
        "d; "
        "setp.eq.u32 %p0, %r0, 0; setp.lt.u32 %p2, %r0, 32;\n@%p0 mbarrier.init.shared::cta.b64 [%r1+8], 1;\n"
        "shl.b32 %r2, %r0, 4; copy: cvt.u64.u32 %rd10, %r2; add.s64 %rd11, %rd0, %rd10; ld.global.v4.b32 "
        "{%r4, "
        "%r5, %r6, %r7}, [%rd11]; add.u32 %r3, %r1, %r2; st.shared.v4.b32 [%r3+1024], {%r4, %r5, %r6, %r7}; "
        "add.u32 %r2, %r2, 2048; setp.lt.u32 %p1, %r2, ",
        image_.size(), "; @%p1 bra copy;\n", proxy_fence,
        "@%p2 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;\n@%p2 "
        "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; tcgen05.fence::before_thread_sync; "
        "bar.sync "
        "0; tcgen05.fence::after_thread_sync; ld.shared.b32 %r10, [%r1]; @!%p0 bra sums;\n");
    // D in columns 0 to n - 1, then the scales.
    const uint32_t scales_a = 256, scales_b = scales_a + 4 * tiles_;
    for (uint32_t tile = 0; tile < tiles_ * (1 + halves_); ++tile)
      absl::StrAppend(&t, "mov.b64 %rd20, ", descriptor(scales_at() + tile * 512, 128, 0),
                      "; tcgen05.cp.cta_group::1.32x128b.warpx4 [%r10+", scales_a + 4 * tile, "], %rd20;\n");
    for (uint32_t step = 0; step < 8; ++step) {
      const uint32_t first = step % 4 * kind_.scales, tile = first / 4;
      const uint32_t bits = (first % 4 << 4 | kind_.a << 7 | kind_.b << 10 | n_ / 8 << 17 |
                             uint32_t{kind_.powers_of_two} << 23 | 1u << 27 | first % 4 << 29) ^
                            flipped_bits;
      absl::StrAppend(&t, "mov.b64 %rd20, ", descriptor(step % 4 * 32, 1024, 2), "; mov.b64 %rd21, ",
                      descriptor(a_bytes() + step % 4 * 32, 1024, 2), "; mov.b32 %r11, ", bits,
                      "; setp.ne.u32 %p3, ", step, ", 0; tcgen05.mma.cta_group::1.kind::", kind_.name,
                      ".block_scale.scale_vec::", kind_.scales, "X [%r10], %rd20, %rd21, %r11, [%r10+",
                      scales_a + 4 * tile, "], [%r10+", scales_b + 4 * tile * halves_, "], %p3;\n");
    }
    absl::StrAppend(
        &t, "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1+8];\nsums: ",
        waits ? "wait: mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r1+8], 0; @!%p4 bra wait;" : "",
        fence_after,
        "\nshr.u32 %r12, %r0, 5; shl.b32 %r12, %r12, 21; add.u32 %r12, %r12, %r10; mul.wide.u32 ",
        "%rd12, %r0, ", 4 * n_, "; add.s64 %rd12, %rd12, %rd1;\n");
    for (uint32_t column = 0; column < n_; column += 8) {
      absl::StrAppend(&t, "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%r100, %r101, %r102, %r103, %r104, %r105, ",
                      "%r106, %r107}, [%r12+", column, "]; ", wait_load, "\n");
      for (uint32_t i = 0; i < 8; ++i)
        absl::StrAppend(&t, "st.global.b32 [%rd12+", 4 * (column + i), "], %r", 100 + i, "; ");
    }
    return absl::StrCat(t, "\ntcgen05.fence::before_thread_sync; bar.sync 0;\n", free, "\nret; }\n");
  }

  Kind kind_;
  uint32_t n_, tiles_, halves_;
  std::vector<uint8_t> image_;
  std::vector<float> out_;
};

constexpr AsyncPolicy kPolicies[] = {AsyncPolicy::late, AsyncPolicy::early, AsyncPolicy::random};

TEST(Tcgen05, EveryKindAndWidth) {
  for (const Kind& kind : kKinds)
    for (const uint32_t n : {16u, 64u, 128u, 192u, 256u}) {
      SCOPED_TRACE(absl::StrCat(kind.name, " ", kind.scales, "X, n ", n));
      Product product(kind, n);
      for (const AsyncPolicy policy : kPolicies) {
        const absl::Status status = product.run(policy, n);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_TRUE(product.is_right());
      }
    }
}

// The message of a run with late products that must fail.
std::string message(Product& product) {
  const absl::Status status = product.run(AsyncPolicy::late, 1);
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

TEST(Tcgen05, NamesMistakes) {
  Product a(kKinds[0], 64);
  a.proxy_fence = "";
  EXPECT_THAT(message(a), HasSubstr("without a later fence.proxy.async"));
  Product b(kKinds[0], 64);
  b.fence_after = "";
  EXPECT_THAT(message(b), HasSubstr("without a later tcgen05.fence::after_thread_sync"));
  Product c(kKinds[0], 64);
  c.wait_load = "";
  EXPECT_THAT(message(c), HasSubstr("with a tcgen05.ld in flight"));
  Product d(kKinds[0], 64);
  d.free = "";
  EXPECT_THAT(message(d), HasSubstr("without freeing its tensor memory"));
  Product e(kKinds[0], 64);
  e.flipped = uint64_t{1} << 46;
  EXPECT_THAT(message(e), HasSubstr("are not 0b001"));
  Product f(kKinds[2], 64);
  f.flipped_bits = 1u << 29;
  EXPECT_THAT(message(f), HasSubstr("the first scale is number 1 of 4"));
  Product g(kKinds[0], 64);
  g.flipped_bits = 1u << 23;
  EXPECT_THAT(message(g), HasSubstr("scales of E4M3 need scale_vec::4X"));
}

TEST(Tcgen05, MissingWaitGivesWrongSums) {
  Product product(kKinds[0], 64);
  product.waits = false;
  int failures = 0;
  for (uint64_t seed = 0; seed < 8; ++seed)
    failures += !product.run(AsyncPolicy::late, seed).ok() || !product.is_right();
  EXPECT_GT(failures, 0);
}

}  // namespace
}  // namespace lathe::ptx
