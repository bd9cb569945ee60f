// How a fake compiler library behaves. Each library links the same code and another value.
#pragma once

enum class FakeWay {
  kNormal,
  kOtherAbi,
  kOtherCodegen,
  kFails,
  kGivesGarbage,
  kGivesNothing,
  kMisbehaves,
  kSlow
};
extern const FakeWay kFakeWay;
