// Device memory and streams in the C API.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fake_device.h"

namespace lathe {
namespace {

bool last_error_is(const std::string& text) { return lathe_last_error() == text; }

TEST(Memory, RoundTripsBytes) {
  FakeDevice fake;
  lathe_device* device = fake.device.get();
  std::vector<uint8_t> source(1000), result(1000, 0);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<uint8_t>(i * 7);
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(lathe_device_alloc(device, source.size(), &first), LATHE_OK);
  ASSERT_EQ(lathe_device_alloc(device, source.size(), &second), LATHE_OK);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  lathe_stream stream = &fake;
  ASSERT_EQ(lathe_stream_create(device, &stream), LATHE_OK);
  EXPECT_EQ(stream, nullptr) << "the only stream of the CPU";
  const size_t n = source.size();
  EXPECT_EQ(lathe_device_copy(device, stream, first, source.data(), n, LATHE_COPY_TO_DEVICE), LATHE_OK);
  EXPECT_EQ(lathe_device_copy(device, stream, second, first, n, LATHE_COPY_ON_DEVICE), LATHE_OK);
  EXPECT_EQ(lathe_device_copy(device, stream, result.data(), second, n, LATHE_COPY_TO_HOST), LATHE_OK);
  EXPECT_EQ(lathe_stream_synchronize(device, stream), LATHE_OK);
  EXPECT_EQ(result, source);
  EXPECT_EQ(lathe_stream_destroy(device, stream), LATHE_OK);
  EXPECT_EQ(lathe_device_free(device, first), LATHE_OK);
  EXPECT_EQ(lathe_device_free(device, second), LATHE_OK);
}

TEST(Memory, AcceptsZeroBytes) {
  FakeDevice fake;
  void* memory = &fake;
  EXPECT_EQ(lathe_device_alloc(fake.device.get(), 0, &memory), LATHE_OK);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(lathe_device_free(fake.device.get(), nullptr), LATHE_OK);
  EXPECT_EQ(lathe_device_copy(fake.device.get(), nullptr, nullptr, nullptr, 0, LATHE_COPY_TO_HOST), LATHE_OK);
}

TEST(Memory, RefusesWrongArguments) {
  FakeDevice fake;
  lathe_device* device = fake.device.get();
  int byte = 0;
  void* memory = &byte;
  EXPECT_EQ(lathe_device_alloc(nullptr, 1, &memory), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(memory, nullptr) << "a failure sets the pointer to NULL";
  EXPECT_TRUE(last_error_is("lathe_device_alloc: device is NULL")) << lathe_last_error();
  EXPECT_EQ(lathe_device_alloc(device, 1, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_TRUE(last_error_is("lathe_device_alloc on fake: memory is NULL")) << lathe_last_error();
  EXPECT_EQ(lathe_device_alloc(device, SIZE_MAX, &memory), LATHE_OUT_OF_MEMORY);
  EXPECT_EQ(lathe_device_alloc(device, SIZE_MAX / 2, &memory), LATHE_OUT_OF_MEMORY);
  EXPECT_EQ(lathe_device_alloc(fake.described.get(), 1, &memory), LATHE_NOT_AVAILABLE);
  EXPECT_EQ(lathe_stream_create(fake.described.get(), &memory), LATHE_NOT_AVAILABLE);
  EXPECT_EQ(lathe_stream_create(device, nullptr), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_stream_synchronize(device, &byte), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_stream_destroy(device, &byte), LATHE_INVALID_ARGUMENT);

  int other = 0;
  EXPECT_EQ(lathe_device_copy(device, &byte, &byte, &other, 1, LATHE_COPY_TO_HOST), LATHE_INVALID_ARGUMENT);
  EXPECT_EQ(lathe_device_copy(device, nullptr, nullptr, &other, 1, LATHE_COPY_TO_HOST),
            LATHE_INVALID_ARGUMENT);
  EXPECT_TRUE(last_error_is("lathe_device_copy on fake: to is NULL")) << lathe_last_error();
  EXPECT_EQ(lathe_device_copy(device, nullptr, &byte, nullptr, 1, LATHE_COPY_TO_HOST),
            LATHE_INVALID_ARGUMENT);
  for (int kind : {0, 4, -1}) {
    EXPECT_EQ(lathe_device_copy(device, nullptr, &byte, &other, 1, static_cast<lathe_copy_kind>(kind)),
              LATHE_INVALID_ARGUMENT)
        << kind;
  }
}

}  // namespace
}  // namespace lathe
