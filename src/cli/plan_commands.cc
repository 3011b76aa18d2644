#include "cli/plan_commands.h"

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "algorithms/registry.h"
#include "plan/drawing.h"
#include "plan/json.h"
#include "plan/text.h"
#include "plan/traces.h"
#include "plan/verifier.h"

namespace omnes::cli {
namespace {

using algorithms::Algorithm;
using algorithms::Cost;
using base::Code;
using base::Status;
using plan::Collective;
using plan::Plan;

Cost most(Cost a, const Cost& b) {
  a.rounds = std::max(a.rounds, b.rounds);
  a.messages = std::max(a.messages, b.messages);
  a.inputBlocks = std::max(a.inputBlocks, b.inputBlocks);
  a.partialBlocks = std::max(a.partialBlocks, b.partialBlocks);
  a.operands = std::max(a.operands, b.operands);
  return a;
}

std::string headOf(const std::vector<Plan>& plans) {
  std::string text = std::string(plan::nameOf(plans[0].collective)) + " " + plans[0].algorithm +
                     ", " + std::to_string(plans[0].nranks) + " ranks";
  if (plans[0].root >= 0) text += ", root " + std::to_string(plans[0].root);
  return text;
}

const char* yesOrNo(bool yes) { return yes ? "yes" : "no"; }

// Proves the plans as they will be used.
Status prove(const std::vector<Plan>& plans, std::string* facts) {
  for (const bool inPlace : {false, true}) {
    if (inPlace && plans[0].collective == Collective::kAllToAll) continue;  // there is none
    const auto proof = plan::verify(plans, {.inPlace = inPlace});
    if (!proof.isOk()) return proof.status();
    const plan::Proof& found = proof.value();
    *facts += std::string(inPlace ? "  in place:     " : "  out of place: ") +
              std::to_string(found.rounds) +
              " rounds; the same order on all ranks: " + yesOrNo(found.sameOrderOnAllRanks) +
              "; writes only after a chunk of every peer: " + yesOrNo(found.writesAfterAllPeers) +
              "; " + std::to_string(found.steps) + " steps were proven\n";
  }
  return Status::ok();
}

}  // namespace

base::Result<std::string> listPlans(const std::string& collective, const PlanWords& words) {
  std::optional<Collective> wanted;
  if (!collective.empty()) {
    OMNES_ASSIGN_OR_RETURN(wanted, collectiveOf(collective));
  }
  plan::Hierarchy hierarchy;
  if (!words.hosts.empty()) {
    OMNES_ASSIGN_OR_RETURN(hierarchy, hierarchyOf(words.hosts));
  }
  const plan::Hierarchy* levels = words.hosts.empty() ? nullptr : &hierarchy;
  OMNES_ASSIGN_OR_RETURN(const int32_t nranks, nranksOf(words, levels));
  std::string text = std::to_string(nranks) + " ranks" +
                     (levels == nullptr ? std::string() : " on hosts of " + words.hosts) +
                     "; root 0; a slice costs at most, per rank:\n";
  char line[160];
  std::snprintf(line, sizeof(line), "%-14s %-20s %7s %9s %13s %15s %9s\n", "collective",
                "algorithm", "rounds", "messages", "input blocks", "partial blocks", "operands");
  text += line;
  std::vector<Algorithm> sorted(algorithms::all().begin(), algorithms::all().end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const Algorithm& a, const Algorithm& b) {
    return a.collective < b.collective;
  });
  for (const Algorithm& each : sorted) {
    if (wanted && each.collective != *wanted) continue;
    const int32_t root = plan::hasRoot(each.collective) ? 0 : -1;
    Cost cost;
    bool supported = true;
    for (int32_t rank = 0; rank < nranks && supported; ++rank) {
      supported = each.supports({rank, nranks, root, levels});
      if (supported) cost = most(cost, each.cost({rank, nranks, root, levels}));
    }
    const std::string name(each.name);
    if (supported) {
      std::snprintf(
          line, sizeof(line), "%-14s %-20s %7lld %9lld %13lld %15lld %9lld\n",
          plan::nameOf(each.collective), name.c_str(), static_cast<long long>(cost.rounds),
          static_cast<long long>(cost.messages), static_cast<long long>(cost.inputBlocks),
          static_cast<long long>(cost.partialBlocks), static_cast<long long>(cost.operands));
    } else {
      std::snprintf(line, sizeof(line), "%-14s %-20s %s\n", plan::nameOf(each.collective),
                    name.c_str(), "not for these ranks");
    }
    text += line;
  }
  return text;
}

base::Result<std::string> showPlans(const PlanWords& words, std::optional<int32_t> rank) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<Plan> plans, plansOf(words));
  if (rank && (*rank < 0 || static_cast<size_t>(*rank) >= plans.size()))
    return Status(Code::kInvalidArgument, "--rank " + std::to_string(*rank) + ": give 0 to " +
                                              std::to_string(plans.size() - 1));
  std::string text;
  for (size_t i = 0; i < plans.size(); ++i)
    if (!rank || static_cast<size_t>(*rank) == i) text += plan::toText(plans[i]);
  return text;
}

base::Result<std::string> verifyPlans(const PlanWords& words) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<Plan> plans, plansOf(words));
  std::string facts;
  OMNES_RETURN_IF_ERROR(prove(plans, &facts));
  Cost cost;
  for (const Plan& each : plans) {
    const plan::Counters counted = plan::countersOf(each);
    cost = most(
        cost, {0, counted.messages, counted.inputBlocks, counted.partialBlocks, counted.operands});
  }
  return headOf(plans) + ": proven\n" + facts +
         "  a slice costs at most, per rank: " + std::to_string(cost.messages) + " messages, " +
         std::to_string(cost.inputBlocks) + " input blocks and " +
         std::to_string(cost.partialBlocks) + " partial blocks sent, " +
         std::to_string(cost.operands) +
         " operands reduced\n  slots a link: " + std::to_string(plans[0].minCredits) + "\n";
}

base::Result<std::string> exportPlans(const PlanWords& words, const std::string& format,
                                      uint64_t bytes) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<Plan> plans, plansOf(words));
  if (format == "json") return plan::toJson(plans);
  if (format == "goal") return plan::toGoal(plans, bytes);
  if (format == "chakra") return plan::toChakra(plans, bytes);
  return Status(Code::kInvalidArgument, "--format " + format + ": give json, goal or chakra");
}

base::Result<std::string> importPlans(const std::string& path) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<Plan> plans, plansIn(path));
  std::string facts;
  OMNES_RETURN_IF_ERROR(prove(plans, &facts).withContext(path));
  return plan::toJson(plans);
}

base::Result<std::string> drawPlans(const PlanWords& words) {
  OMNES_ASSIGN_OR_RETURN(const std::vector<Plan> plans, plansOf(words));
  return plan::toSvg(plans);
}

}  // namespace omnes::cli
