// The built-in table of requests of `lathe selftest`.
#include <algorithm>
#include <map>

#include "cli/selftest.h"

namespace lathe::cli {
namespace {

constexpr lathe_dtype kFloats[] = {LATHE_F32, LATHE_F16, LATHE_BF16};
constexpr lathe_dtype kFactors[] = {LATHE_F32,     LATHE_F16,     LATHE_BF16,         LATHE_I8,
                                    LATHE_F8_E4M3, LATHE_F8_E5M2, LATHE_F8_E4M3_FNUZ, LATHE_F8_E5M2_FNUZ};

using Cases = std::vector<SelftestCase>;

reference::MatmulRequest matmul(int64_t m, int64_t n, int64_t k, lathe_dtype dtype = LATHE_F32) {
  reference::MatmulRequest r;
  r.m = m;
  r.n = n;
  r.k = k;
  r.dtype = dtype;
  r.out_dtype = reference::default_result(dtype);
  return r;
}

void set_layout(reference::MatmulRequest* r, int layout) {
  r->trans_a = layout & 1;
  r->trans_b = !(layout & 2);
}

// Sizes around the edges of all tiles, and primes. The operands are integers, so that one wrong index gives a wrong
// result.
void add_shapes(Cases* cases) {
  constexpr int64_t kM[] = {1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 63, 64, 65, 127, 129, 200, 257};
  constexpr int64_t kN[] = {1, 2, 3, 7, 8, 16, 17, 31, 33, 64, 65, 127, 128, 130, 257};
  constexpr int64_t kK[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 64, 65, 127, 128, 130, 257, 521, 640};
  int i = 0;
  for (int pass = 0; pass < 4; ++pass) {
    for (int64_t m : kM) {  // the steps 7 and 11 share no divisor with the lengths of the lists
      reference::MatmulRequest r =
          matmul(m, kN[(i * 7 + pass) % 15], kK[(i * 11 + pass) % 19], kFloats[(i + pass) % 3]);
      set_layout(&r, i % 4);
      r.fill = reference::Fill::kIntegers;
      cases->push_back({"shapes", r});
      ++i;
    }
  }
}

void add_dtypes(Cases* cases) {
  int i = 0;
  for (lathe_dtype dtype : kFactors) {
    for (lathe_dtype out : {LATHE_F32, LATHE_F16, LATHE_BF16, LATHE_I32}) {
      if (out == LATHE_I32 && dtype != LATHE_I8) continue;
      for (int layout = 0; layout < 4; ++layout) {
        // Rows that are a multiple of 16 bytes long, and rows that are not.
        reference::MatmulRequest r = i++ % 2 ? matmul(19, 37, 71, dtype) : matmul(33, 80, 144, dtype);
        r.out_dtype = out;
        if (dtype == LATHE_I8 && out == LATHE_F16) r.alpha = 0x1p-8f;
        set_layout(&r, layout);
        cases->push_back({"dtypes", r});
      }
    }
  }
  for (int layout = 0; layout < 4; ++layout) {
    reference::MatmulRequest r = layout % 2 ? matmul(19, 37, 71) : matmul(70, 80, 144);
    r.math = LATHE_MATH_TF32;
    set_layout(&r, layout);
    cases->push_back({"dtypes", r});
  }
}

void add_epilogues(Cases* cases) {
  int i = 0;
  for (int activation = LATHE_ACTIVATION_NONE; activation <= LATHE_ACTIVATION_SILU; ++activation) {
    for (int c = 0; c < 3; ++c) {                         // none, in its own memory, in D's memory
      for (int residual = 0; residual < 3; ++residual) {  // the same
        if (c == 2 && residual == 2) continue;
        reference::MatmulRequest r = matmul(i % 2 ? 21 : 70, i % 3 ? 48 : 45, 72, kFloats[i % 3]);
        r.activation = static_cast<lathe_activation>(activation);
        r.alpha = 0.5f;
        r.beta = c == 0 ? 0 : -0.75f;
        r.c_in_place = c == 2;
        r.residual = residual != 0;
        r.residual_in_place = residual == 2;
        r.bias = i % 2 == 0;
        r.padding = i % 4 == 3 ? 3 : 0;
        r.batch = i % 5 == 0 ? 2 : 1;
        cases->push_back({"epilogues", r});
        ++i;
      }
    }
  }
}

void add_alignments(Cases* cases) {
  int i = 0;
  for (lathe_dtype dtype : {LATHE_F32, LATHE_F16, LATHE_I8}) {
    for (size_t misalign : {0, 1, 2, 4, 8, 16}) {
      for (int64_t padding : {0, 1, 8}) {
        reference::MatmulRequest r = matmul(i % 2 ? 5 : 40, 48, 80, dtype);
        r.misalign = misalign;
        r.padding = padding;
        r.bias = true;
        r.residual = i % 2 == 0;
        set_layout(&r, i++ % 4);
        r.fill = reference::Fill::kIntegers;
        cases->push_back({"alignments", r});
      }
    }
  }
}

void add_batches(Cases* cases) {
  int i = 0;
  for (int64_t batch : {2, 3, 50}) {
    for (int broadcast = 0; broadcast < 4; ++broadcast) {
      for (int64_t padding : {0, 3}) {
        reference::MatmulRequest r = matmul(i % 3 == 0 ? 1 : 17, 40, 56, kFloats[i % 3]);
        r.batch = batch;
        r.broadcast_a = broadcast & 1;
        r.broadcast_b = broadcast & 2;
        r.padding = padding;
        r.beta = i % 2 ? 1.0f : 0.0f;
        r.bias = true;
        set_layout(&r, i++ % 4);
        r.fill = reference::Fill::kIntegers;
        cases->push_back({"batches", r});
      }
    }
  }
}

// A K that no split-K factor divides, with factors up to and above K.
void add_splits(Cases* cases) {
  constexpr int64_t kShapes[][3] = {
      {1, 48, 1021}, {17, 33, 1021}, {70, 136, 520}, {3, 16, 51234}, {4, 7, 65}};
  int i = 0;
  for (const auto& s : kShapes) {
    for (int32_t split : {2, 3, 7, 77, 65535}) {
      reference::MatmulRequest r = matmul(s[0], s[1], s[2], kFloats[i % 3]);
      r.split_k = split;
      r.out_dtype = LATHE_F32;
      r.bias = true;
      r.activation = LATHE_ACTIVATION_RELU;
      r.batch = i % 4 == 1 ? 2 : 1;
      r.fill = i % 2 ? reference::Fill::kIntegers : reference::Fill::kNormal;
      set_layout(&r, i++ % 4);
      cases->push_back({"splits", r});
    }
  }
}

// Small M and N with K above 50000.
void add_long_sums(Cases* cases) {
  cases->push_back({"long sums", matmul(1, 16, 50021, LATHE_BF16)});
  cases->push_back({"long sums", matmul(3, 5, 65537)});
  cases->push_back({"long sums", matmul(17, 9, 51234, LATHE_F16)});
  reference::MatmulRequest bytes = matmul(2, 8, 131071, LATHE_I8);  // the longest sum that cannot overflow
  bytes.out_dtype = LATHE_I32;
  cases->push_back({"long sums", bytes});
}

void add_special_values(Cases* cases) {
  constexpr int64_t kShapes[][3] = {{1, 33, 65}, {16, 64, 64}, {33, 65, 129}, {70, 40, 136}};
  int i = 0;
  for (const auto& s : kShapes) {
    for (lathe_dtype dtype : kFloats) {
      reference::MatmulRequest r = matmul(s[0], s[1], s[2], dtype);
      r.fill = reference::Fill::kSpecial;
      r.activation = static_cast<lathe_activation>(i % 5);
      r.bias = i % 2;
      r.residual = i % 3 == 1;
      r.padding = i % 2 * 5;
      set_layout(&r, i++ % 4);
      cases->push_back({"special values", r});
    }
  }
}

void add_empty(Cases* cases) {
  for (int zero = 0; zero < 4; ++zero) {
    for (bool with_epilogue : {false, true}) {
      reference::MatmulRequest r = matmul(zero == 0 ? 0 : 5, zero == 1 ? 0 : 19, zero == 2 ? 0 : 7);
      r.batch = zero == 3 ? 0 : 2;
      r.bias = r.residual = with_epilogue;
      r.beta = with_epilogue ? 2 : 0;
      r.activation = with_epilogue ? LATHE_ACTIVATION_SILU : LATHE_ACTIVATION_NONE;
      cases->push_back({"empty sizes", r});
    }
  }
}

// Each M that has its own bucket, with weights in the layout of a Linear layer.
void add_decode(Cases* cases) {
  for (lathe_dtype dtype : {LATHE_BF16, LATHE_F16, LATHE_F8_E4M3}) {
    for (int64_t m = 1; m <= 16; ++m) {
      reference::MatmulRequest r = matmul(m, 208, 272, dtype);
      r.out_dtype = LATHE_BF16;
      r.residual = m % 2;
      cases->push_back({"decode", r});
    }
  }
}

// Requests that every GPU family of matmul kernels supports: few rows, 16-bit weights, rows of a multiple of 16 bytes.
void add_families(Cases* cases) {
  constexpr int64_t kM[] = {1, 3, 8, 13, 16}, kN[] = {72, 136, 200}, kK[] = {64, 528, 1040, 2072};
  for (int i = 0; i < 16; ++i) {
    reference::MatmulRequest r = matmul(kM[i % 5], kN[i % 3], kK[i % 4], i % 2 ? LATHE_F16 : LATHE_BF16);
    r.out_dtype = i % 3 == 0 ? LATHE_F32 : r.dtype;
    r.batch = i % 8 == 3 ? 3 : 1;
    r.split_k = i % 4 == 1 ? 2 + i / 4 : i % 8 == 6 ? 1 : 0;
    r.bias = i % 3 == 1;
    r.activation = static_cast<lathe_activation>(i % 5);
    r.residual = i % 4 == 2;
    r.beta = i % 5 == 4 ? 0.5f : 0;
    r.alpha = i % 7 == 5 ? -2.0f : 1;
    r.determinism = static_cast<lathe_determinism>(r.split_k ? i % 2 : i % 3);
    cases->push_back({"families", r});
  }
}

void add_equal_bits(Cases* cases) {
  constexpr int64_t kShapes[][3] = {{1, 130, 4099}, {7, 64, 1024}, {40, 67, 2051}, {130, 72, 520}};
  int i = 0;
  for (const auto& s : kShapes) {
    for (lathe_dtype dtype : kFloats) {
      reference::MatmulRequest r = matmul(s[0], s[1], s[2], dtype);
      r.out_dtype = LATHE_F32;
      r.determinism = LATHE_DETERMINISM_RUN_TO_RUN;
      r.split_k = i % 2 ? 5 : 0;
      set_layout(&r, i % 4);
      cases->push_back({"equal bits", r});
      r.determinism = LATHE_DETERMINISM_BATCH_INVARIANT;
      r.split_k = 0;
      cases->push_back({"equal bits", r});
      ++i;
    }
  }
}

void add_candidates(Cases* cases) {
  std::vector<reference::MatmulRequest> requests = {
      matmul(1, 136, 1040, LATHE_BF16),  matmul(13, 96, 528, LATHE_F16),
      matmul(150, 136, 272, LATHE_BF16), matmul(70, 72, 144),
      matmul(33, 80, 288, LATHE_I8),     matmul(40, 80, 288, LATHE_F8_E4M3),
      matmul(70, 45, 91, LATHE_F16),     matmul(5, 33, 129)};
  requests[3].math = LATHE_MATH_TF32;
  set_layout(&requests[6], 3);
  for (reference::MatmulRequest& r : requests) {
    r.fill = reference::Fill::kIntegers;
    r.out_dtype = LATHE_F32;
    r.bias = true;
    r.activation = LATHE_ACTIVATION_RELU;
    cases->push_back({"candidates", r, Forced::kEach});
  }
}

void add_argmax(Cases* cases) {
  constexpr int64_t kRows[] = {1, 2, 3, 7, 33, 130};
  constexpr int64_t kLengths[] = {1, 2, 7, 31, 32, 33, 255, 1024, 1025, 4099, 16384, 16385, 40007};
  int i = 0;
  for (int64_t n : kLengths) {
    for (reference::Fill fill :
         {reference::Fill::kNormal, reference::Fill::kIntegers, reference::Fill::kSpecial}) {
      reference::ArgmaxRequest r;
      r.rows = n > 4000 ? kRows[i % 4] : kRows[i % 6];
      r.n = n;
      r.dtype = kFloats[(i / 2) % 3];
      r.index_dtype = i % 2 ? LATHE_I32 : LATHE_I64;
      r.values = i % 3 != 0;
      r.index_offset = i % 4 == 2 ? -5 : i % 4 == 3 ? 128256 : 0;
      r.padding = i % 5 == 1 ? 3 : 0;
      r.misalign = i % 4 == 1 ? static_cast<size_t>(1 << (i % 5)) : 0;
      r.fill = fill;
      r.determinism = i % 3 == 1 ? LATHE_DETERMINISM_RUN_TO_RUN : LATHE_DETERMINISM_FAST;
      cases->push_back({"argmax", r});
      ++i;
    }
  }
  reference::ArgmaxRequest empty;
  empty.n = 100;
  cases->push_back({"argmax", empty});
  for (int64_t n : {700, 9000, 70000}) {
    reference::ArgmaxRequest r;
    r.rows = 3;
    r.n = n;
    r.dtype = LATHE_BF16;
    r.values = true;
    r.fill = reference::Fill::kIntegers;
    cases->push_back({"argmax candidates", r, Forced::kEach});
  }
}

// Tile edges in M and N, ties, all dtypes and layouts, and few rows with a wide vocabulary.
void add_matmul_argmax(Cases* cases) {
  constexpr int64_t kShapes[][3] = {{1, 1, 1},     {1, 2, 3},       {3, 1, 7},     {2, 31, 16},
                                    {5, 33, 65},   {8, 64, 64},     {13, 127, 1},  {16, 130, 33},
                                    {17, 257, 71}, {33, 1000, 128}, {70, 520, 40}, {130, 45, 9},
                                    {1, 5003, 96}, {4, 4096, 72}};
  int i = 0;
  for (const auto& s : kShapes) {
    for (reference::Fill fill :
         {reference::Fill::kNormal, reference::Fill::kIntegers, reference::Fill::kSpecial}) {
      reference::MatmulArgmaxRequest r;
      r.m = s[0], r.n = s[1], r.k = s[2];
      r.dtype = kFloats[i % 3];
      r.logits_dtype = kFloats[(i / 3) % 3];
      r.trans_a = i % 4 == 1;
      r.trans_b = i % 2 == 0;
      r.bias = i % 5 < 2;
      r.values = i % 3 != 1;
      r.index_dtype = i % 2 ? LATHE_I32 : LATHE_I64;
      r.index_offset = i % 4 == 2 ? 128256 : i % 4 == 3 ? -7 : 0;
      r.padding = i % 3 == 2 ? 5 : 0;
      r.misalign = i % 7 == 5 ? 4 : i % 11 == 7 ? 1 : 0;
      r.fill = fill;
      r.determinism = static_cast<lathe_determinism>(i % 3);
      cases->push_back({"matmul_argmax", r});
      ++i;
    }
  }
  reference::MatmulArgmaxRequest r;
  r.m = 5, r.n = 40, r.bias = true, r.values = true, r.fill = reference::Fill::kIntegers;
  cases->push_back({"matmul_argmax", r});  // K 0
  r.m = 0, r.k = 8;
  cases->push_back({"matmul_argmax", r});
  r.m = 20, r.n = 700, r.k = 144;
  r.dtype = r.logits_dtype = LATHE_BF16;
  cases->push_back({"matmul_argmax candidates", r, Forced::kEach});
}

// Takes at most `most` cases of each group, evenly spaced.
Cases choose_evenly(const Cases& cases, size_t most) {
  std::map<std::string, size_t> sizes, seen;
  for (const SelftestCase& c : cases) ++sizes[c.group];
  Cases chosen;
  for (const SelftestCase& c : cases) {
    const size_t size = sizes[c.group], at = seen[c.group]++, wanted = std::min(size, most);
    if ((at + 1) * wanted / size > at * wanted / size) chosen.push_back(c);
  }
  return chosen;
}

}  // namespace

std::vector<SelftestCase> selftest_cases(bool quick) {
  Cases cases;
  add_shapes(&cases);
  add_dtypes(&cases);
  add_epilogues(&cases);
  add_alignments(&cases);
  add_batches(&cases);
  add_splits(&cases);
  add_long_sums(&cases);
  add_special_values(&cases);
  add_empty(&cases);
  add_decode(&cases);
  add_families(&cases);
  add_equal_bits(&cases);
  add_candidates(&cases);
  add_argmax(&cases);
  add_matmul_argmax(&cases);
  return quick ? choose_evenly(cases, 8) : cases;
}

}  // namespace lathe::cli
