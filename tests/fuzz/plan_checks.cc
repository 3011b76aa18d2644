#include "fuzz/plan_checks.h"

#include <cstdio>
#include <cstdlib>

#include "plan/json.h"
#include "plan/text.h"
#include "plan/traffic.h"
#include "plan/verifier.h"

namespace omnes::fuzz {
namespace {

// Unrolling much is slow under sanitizers; how the verifier limits it is tested elsewhere.
constexpr int64_t kMostSteps = 4000;

int64_t sizeOf(const std::vector<plan::Plan>& plans) {
  int64_t size = 0;
  for (const plan::Plan& each : plans) {
    for (const plan::Lane& lane : each.lanes) {
      for (const plan::Step& step : lane.steps) {
        size += int64_t{1} + step.iterations;
        // Several slices are proven, as many as the largest delay asks for.
        size += step.delay;
        for (const plan::Ref& ref : step.sources) size += ref.run.count;
        for (const plan::Ref& ref : step.sinks) size += ref.run.count;
      }
    }
    size += each.scratchCopies + int64_t{each.blocks} + each.scratchBlocks;
  }
  return size;
}

}  // namespace

void checkAccepted(const std::vector<plan::Plan>& plans) {
  const auto again = plan::fromJson(plan::toJson(plans));
  if (!again.isOk() || again.value() != plans) {
    std::fputs("written and read again, the plans differ\n", stderr);
    std::abort();
  }
  for (const plan::Plan& each : plans) (void)plan::toText(each);
  if (sizeOf(plans) > kMostSteps) return;
  for (const bool inPlace : {false, true}) (void)plan::verify(plans, {.inPlace = inPlace}).isOk();
  (void)plan::trafficOf(plans, 10000).isOk();
}

}  // namespace omnes::fuzz
