// Plans as JSON: any text gives plans or an error.
#include <string_view>

#include "algorithms/registry.h"
#include "fuzz/plan_checks.h"
#include "fuzz/target.h"
#include "plan/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto plans =
      omnes::plan::fromJson(std::string_view(reinterpret_cast<const char*>(data), size));
  if (plans.isOk()) omnes::fuzz::checkAccepted(plans.value());
  return 0;
}

namespace omnes::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const algorithms::Algorithm& algorithm : algorithms::all()) {
    for (const int32_t nranks : {2, 3}) {
      const int32_t root = plan::hasRoot(algorithm.collective) ? 0 : -1;
      std::vector<plan::Plan> plans;
      for (int32_t rank = 0; rank < nranks; ++rank) {
        const algorithms::PlanRequest request{rank, nranks, root, nullptr};
        if (algorithm.supports(request)) plans.push_back(algorithm.make(request));
      }
      if (!plans.empty()) texts.push_back(plan::toJson(plans));
    }
  }
  return texts;
}

}  // namespace omnes::fuzz
