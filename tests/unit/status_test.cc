#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "base/clock.h"
#include "base/types.h"

namespace omnes::base {
namespace {

Result<int> half(int value) {
  if (value % 2 != 0) return Status(Code::kInvalidArgument, std::to_string(value) + " is odd");
  return value / 2;
}

Result<int> quarter(int value) {
  OMNES_ASSIGN_OR_RETURN(const int once, half(value));
  OMNES_ASSIGN_OR_RETURN(const int twice, half(once));
  return twice;
}

class FakeClock final : public Clock {
 public:
  TimePoint now() const override { return time; }
  TimePoint time{std::chrono::seconds(1)};
};

TEST(Status, OkIsEmptyAndStaysOk) {
  EXPECT_TRUE(Status().isOk());
  EXPECT_EQ(Status().message(), "");
  EXPECT_TRUE(Status::ok().withContext("x").isOk());
}

TEST(Status, ErrorsKeepCodeAndCause) {
  const Status status = Status::fromErrno(ENOENT, "cannot open x").withContext("rank 3");
  EXPECT_EQ(status.code(), Code::kSystemError);
  EXPECT_EQ(status.message(), "rank 3: cannot open x: No such file or directory (errno 2)");
}

TEST(Result, MacrosPassValuesAndErrorsOn) {
  EXPECT_EQ(quarter(12).value(), 3);
  EXPECT_EQ(quarter(6).status().message(), "3 is odd");
  Result<std::unique_ptr<int>> owner = std::make_unique<int>(5);
  const std::unique_ptr<int> taken = std::move(owner).value();
  EXPECT_EQ(*taken, 5);
}

TEST(Deadline, FollowsItsClock) {
  FakeClock clock;
  const Deadline deadline = Deadline::afterMs(clock, 10);
  EXPECT_EQ(deadline.pollMs(clock), 10);
  EXPECT_EQ(deadline.pollMs(clock, 3), 3);
  clock.time.sinceStart += std::chrono::nanoseconds(1);
  EXPECT_EQ(deadline.pollMs(clock), 10);  // rounded up
  clock.time.sinceStart += std::chrono::milliseconds(10);
  EXPECT_TRUE(deadline.hasPassed(clock));
  EXPECT_EQ(deadline.remaining(clock), Duration::zero());
  EXPECT_FALSE(Deadline::afterMs(clock, 0).hasPassed(clock));
  EXPECT_EQ(Deadline::never().pollMs(clock), -1);
  EXPECT_EQ(Deadline::never().pollMs(clock, 7), 7);
}

TEST(Types, EveryPairIsDefinedOrBitwiseOnFloats) {
  for (const DataType type : kAllDataTypes) {
    EXPECT_NE(sizeOf(type), 0u);
    EXPECT_NE(nameOf(type), "?");
    for (const ReduceOp op : kAllReduceOps) {
      const bool bitwise = op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
      EXPECT_EQ(isDefined(type, op), !(bitwise && isFloat(type)));
      EXPECT_GE(sizeOf(wireType(type, op)), sizeOf(type));
    }
  }
  EXPECT_EQ(sizeOf(static_cast<DataType>(200)), 0u);
  EXPECT_FALSE(isDefined(static_cast<DataType>(200), ReduceOp::kSum));
}

}  // namespace
}  // namespace omnes::base
