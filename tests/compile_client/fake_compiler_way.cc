#include "fake_compiler_way.h"

const FakeWay kFakeWay = FakeWay::FAKE_COMPILER_WAY;
