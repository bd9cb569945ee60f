// Classifies the 1,797 images of digits.csv with the trained network of weights.txt:
//   hidden = relu(images * hidden.weight^T + hidden.bias), logits = hidden * output.weight^T + output.bias,
//   argmax.
// The first process compiles each kernel on first use. A second process finds them in the cache.
#include <chrono>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "../report.h"

namespace {

constexpr int64_t kPixels = 64, kDigits = 10;

struct Tensor {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
};

struct Images {
  std::vector<float> pixels;  // count by 64, 0..1
  std::vector<int> labels;
  int64_t count() const { return static_cast<int64_t>(labels.size()); }
};

Images read_images(const std::string& path) {
  Images images;
  std::ifstream in(path);
  std::vector<int> row(kPixels + 1);
  for (char comma = ','; in >> row[0];) {
    for (int64_t i = 1; i <= kPixels; ++i) in >> comma >> row[i];
    for (int64_t i = 0; i < kPixels; ++i) images.pixels.push_back(static_cast<float>(row[i]) / 16);
    images.labels.push_back(row[kPixels]);
  }
  if (images.labels.empty()) throw std::runtime_error("cannot read images from " + path);
  return images;
}

std::map<std::string, Tensor> read_weights(const std::string& path) {
  std::map<std::string, Tensor> weights;
  std::ifstream in(path);
  std::string name;
  for (Tensor t; in >> name >> t.rows >> t.columns; weights[name] = t) {
    t.values.resize(t.rows * t.columns);
    for (float& v : t.values) in >> v;
  }
  if (weights.size() != 4) throw std::runtime_error("cannot read four tensors from " + path);
  return weights;
}

class Network {
 public:
  Network(const lathe::Device& device, const std::map<std::string, Tensor>& weights)
      : device_(device),
        hidden_weight_(weights.at("hidden.weight")),
        hidden_bias_(weights.at("hidden.bias")),
        output_weight_(weights.at("output.weight")),
        output_bias_(weights.at("output.bias")) {}

  std::vector<int64_t> classify(const float* pixels, int64_t count) const {
    std::vector<float> hidden(count * hidden_weight_.rows), logits(count * kDigits);
    linear(pixels, count, hidden_weight_, hidden_bias_, LATHE_ACTIVATION_RELU, hidden.data());
    linear(hidden.data(), count, output_weight_, output_bias_, LATHE_ACTIVATION_NONE, logits.data());
    std::vector<int64_t> digits(count);
    lathe::argmax(device_, lathe::row_major(logits.data(), count, kDigits), digits.data());
    return digits;
  }

 private:
  // out = activation(in * weight^T + bias), with the weight stored [outputs, inputs], as in a Linear layer.
  void linear(const float* in, int64_t count, const Tensor& weight, const Tensor& bias,
              lathe_activation activation, float* out) const {
    lathe::Epilogue epilogue;
    epilogue.bias = bias.values.data();
    epilogue.bias_dtype = LATHE_F32;
    epilogue.activation = activation;
    lathe::matmul(device_, lathe::row_major(in, count, weight.columns),
                  lathe::row_major(weight.values.data(), weight.rows, weight.columns).transposed(),
                  lathe::row_major(out, count, weight.rows), epilogue);
  }

  const lathe::Device& device_;
  const Tensor hidden_weight_, hidden_bias_, output_weight_, output_bias_;
};

// Images with index % 5 == 4 were not used for training (train.py).
void print_accuracy(const Images& images, const std::vector<int64_t>& digits) {
  int right[2] = {}, all[2] = {};
  for (int64_t i = 0; i < images.count(); ++i) {
    const int test = i % 5 == 4;
    right[test] += digits[i] == images.labels[i];
    ++all[test];
  }
  std::printf("digits: %d of %d correct; %.2f%% of the %d training images, %.2f%% of the %d test images\n",
              right[0] + right[1], all[0] + all[1], 100.0 * right[0] / all[0], all[0],
              100.0 * right[1] / all[1], all[1]);
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

int run(int argc, char** argv) {
  const std::string directory = DIGITS_DIRECTORY;
  const Images images = read_images(directory + "/digits.csv");
  const auto weights = read_weights(directory + "/weights.txt");
  const lathe::Context context;
  const lathe::Device cpu = context.open("cpu");
  const Network network(cpu, weights);

  auto start = std::chrono::steady_clock::now();
  const std::vector<int64_t> digits = network.classify(images.pixels.data(), images.count());
  const double first = milliseconds_since(start);
  constexpr int kRepeats = 100;
  start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRepeats; ++i) network.classify(images.pixels.data(), images.count());
  const double again = milliseconds_since(start) / kRepeats;

  print_accuracy(images, digits);
  std::printf("time for all images: %.1f ms the first time, %.2f ms after that\n", first, again);
  return report_statistics(context, argc, argv) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "digits: %s\n", e.what());
    return 1;
  }
}
