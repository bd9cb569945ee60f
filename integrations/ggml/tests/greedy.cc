// Generates greedily, and prints for each prompt one line of JSON: for each step the token and the largest logits.
//   greedy MODEL TEXT PROMPTS TOKENS THREADS [GIVEN]
// The prompts are pieces of the text file, evenly spaced. GIVEN is a file with one line of tokens for each prompt; they
// are added to it, and keys and values are f32, without flash attention: the reference for models in f32.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

namespace {

constexpr int kPromptBytes = 200, kTop = 32, kContext = 1024;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "greedy: %s\n", what);
  std::exit(1);
}

std::vector<llama_token> tokens_of(const llama_vocab* vocab, const std::string& text) {
  std::vector<llama_token> tokens(text.size() + 8);
  const int count = llama_tokenize(vocab, text.data(), static_cast<int>(text.size()), tokens.data(),
                                   static_cast<int>(tokens.size()), true, false);
  if (count <= 0) fail("cannot tokenize the prompt");
  tokens.resize(count);
  return tokens;
}

// Prints one step and returns its token.
llama_token print_step(const float* logits, int count, bool first) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  const int top = std::min(kTop, count);
  std::partial_sort(order.begin(), order.begin() + top, order.end(), [logits](int a, int b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  std::printf("%s{\"token\":%d,\"top\":[", first ? "" : ",", order[0]);
  for (int i = 0; i < top; ++i) std::printf("%s[%d,%.6f]", i == 0 ? "" : ",", order[i], logits[order[i]]);
  std::printf("]}");
  return order[0];
}

void generate(llama_context* context, const llama_vocab* vocab, const std::string& prompt,
              const std::string& given, int steps) {
  llama_memory_clear(llama_get_memory(context), true);
  std::vector<llama_token> next = tokens_of(vocab, prompt);
  std::istringstream words(given);
  next.insert(next.end(), std::istream_iterator<llama_token>(words), {});
  std::printf("[");
  for (int i = 0; i < steps; ++i) {
    if (llama_decode(context, llama_batch_get_one(next.data(), static_cast<int>(next.size()))) != 0)
      fail("llama_decode failed");
    next = {print_step(llama_get_logits_ith(context, -1), llama_vocab_n_tokens(vocab), i == 0)};
  }
  std::printf("]\n");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6 && count != 7) fail("usage: greedy MODEL TEXT PROMPTS TOKENS THREADS [GIVEN]");
  const bool exact = count == 7;
  const int prompts = std::atoi(arguments[3]), steps = std::atoi(arguments[4]);
  std::ifstream file(arguments[2], std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (prompts < 1 || steps < 1 || text.size() < static_cast<size_t>(prompts) * kPromptBytes)
    fail("the text is too short for so many prompts");
  std::ifstream given(exact ? arguments[6] : "");
  ggml_backend_load_all();
  llama_model* model = llama_model_load_from_file(arguments[1], llama_model_default_params());
  if (model == nullptr) fail("cannot load the model");
  llama_context_params params = llama_context_default_params();
  params.n_ctx = kContext;
  params.n_threads = params.n_threads_batch = std::atoi(arguments[5]);
  if (exact) {
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  }
  llama_context* context = llama_init_from_model(model, params);
  if (context == nullptr) fail("cannot create a context");
  for (int i = 0; i < prompts; ++i) {
    const size_t begin = text.size() / prompts * i;
    std::string line;
    if (exact && !std::getline(given, line)) fail("GIVEN has fewer lines than there are prompts");
    generate(context, llama_model_get_vocab(model), text.substr(begin, kPromptBytes), line, steps);
  }
  llama_free(context);
  llama_model_free(model);
  return 0;
}
