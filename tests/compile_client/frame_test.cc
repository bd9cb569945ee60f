#include "compile_client/frame.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

namespace lathe {
namespace {

class FrameTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_), 0); }
  void TearDown() override {
    close_end(0);
    close_end(1);
  }
  void close_end(int i) {
    if (ends_[i] >= 0) close(ends_[i]);
    ends_[i] = -1;
  }
  static Deadline in(int milliseconds) {
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  }
  // Sends one frame and returns its bytes.
  std::string sent(absl::string_view name, absl::string_view body) {
    EXPECT_TRUE(send_frame(ends_[0], FrameKind::kOutput, 7, name, body, in(1000)).ok());
    std::string bytes(1000, 0);
    bytes.resize(static_cast<size_t>(recv(ends_[1], bytes.data(), bytes.size(), 0)));
    return bytes;
  }
  absl::StatusOr<Frame> received(const std::string& bytes) {
    EXPECT_EQ(send(ends_[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    return receive_frame(ends_[1], in(1));
  }
  int ends_[2] = {-1, -1};
};

TEST_F(FrameTest, CarriesMoreThanTheSocketBuffers) {
  const std::string body(8 << 20, 'b');
  std::thread sender(
      [&] { EXPECT_TRUE(send_frame(ends_[0], FrameKind::kOutput, -3, "name", body, kNoDeadline).ok()); });
  const absl::StatusOr<Frame> frame = receive_frame(ends_[1], in(60000));
  sender.join();
  ASSERT_TRUE(frame.ok()) << frame.status();
  EXPECT_EQ(frame->kind, FrameKind::kOutput);
  EXPECT_EQ(frame->value, -3);
  EXPECT_EQ(frame->name, "name");
  EXPECT_EQ(frame->body, body);
}

TEST_F(FrameTest, RefusesEveryFlippedBitAndEveryTruncation) {
  const std::string whole = sent("stage", "text of the stage");
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(received(bytes).ok()) << bit;
    TearDown();
    SetUp();
  }
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(received(whole.substr(0, size)).status().code(), absl::StatusCode::kDeadlineExceeded) << size;
    close_end(0);
    EXPECT_EQ(receive_frame(ends_[1], in(1000)).status().code(), absl::StatusCode::kUnavailable) << size;
    TearDown();
    SetUp();
  }
  EXPECT_TRUE(received(whole).ok());
}

TEST_F(FrameTest, DoesNotAllocateAbsurdSizes) {
  for (const size_t at : {12u, 16u, 20u}) {
    std::string bytes = sent("n", "b");
    bytes[at + 3] = '\x7f';
    EXPECT_EQ(received(bytes).status().code(), absl::StatusCode::kDataLoss) << at;
    TearDown();
    SetUp();
  }
}

TEST_F(FrameTest, ClosedSocketRaisesNoSignal) {
  close_end(1);
  EXPECT_EQ(send_frame(ends_[0], FrameKind::kRequest, 0, "", "x", in(1000)).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(receive_frame(ends_[0], in(1000)).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(FrameTest, SendingToNobodyEndsAtTheDeadline) {
  EXPECT_EQ(send_frame(ends_[0], FrameKind::kRequest, 0, "", std::string(32 << 20, 'x'), in(50)).code(),
            absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace lathe
