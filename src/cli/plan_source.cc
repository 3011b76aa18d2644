#include "cli/plan_source.h"

#include <algorithm>
#include <utility>

#include "algorithms/registry.h"
#include "base/text.h"
#include "cli/files.h"
#include "plan/json.h"
#include "plan/msccl.h"

namespace omnes::cli {
namespace {

using base::Code;
using base::Status;
using plan::Collective;

constexpr int64_t kMaxRanks = 4096;  // more fill memory with schedules that nobody reads

std::string bare(std::string_view name) {
  std::string text = base::toLower(name);
  std::erase_if(text, [](char c) { return c == '_' || c == '-'; });
  return text;
}

Status refuse(std::string text) { return Status(Code::kInvalidArgument, std::move(text)); }

base::Result<const algorithms::Algorithm*> algorithmOf(Collective collective,
                                                       const std::string& name) {
  if (const auto* found = algorithms::find(collective, name)) return found;
  std::string known;
  for (const algorithms::Algorithm& each : algorithms::all()) {
    if (each.collective != collective) continue;
    known.append(known.empty() ? "" : ", ").append(each.name);
  }
  return refuse("'" + name + "' is no algorithm of " + plan::nameOf(collective) + "; there are " +
                known);
}

base::Result<std::vector<plan::Plan>> registered(const PlanWords& words) {
  OMNES_ASSIGN_OR_RETURN(const Collective collective, collectiveOf(words.words[0]));
  OMNES_ASSIGN_OR_RETURN(const algorithms::Algorithm* algorithm,
                         algorithmOf(collective, words.words[1]));
  plan::Hierarchy hierarchy;
  if (!words.hosts.empty()) {
    OMNES_ASSIGN_OR_RETURN(hierarchy, hierarchyOf(words.hosts));
  }
  const plan::Hierarchy* levels = words.hosts.empty() ? nullptr : &hierarchy;
  OMNES_ASSIGN_OR_RETURN(const int32_t nranks, nranksOf(words, levels));
  const bool rooted = plan::hasRoot(collective);
  if (!rooted && words.root)
    return refuse(std::string("--root: ") + plan::nameOf(collective) +
                  " has no root; leave it out");
  const int32_t root = rooted ? words.root.value_or(0) : -1;
  if (rooted && (root < 0 || root >= nranks))
    return refuse("--root " + std::to_string(root) + " is no rank; give 0 to " +
                  std::to_string(nranks - 1));
  std::vector<plan::Plan> plans;
  for (int32_t rank = 0; rank < nranks; ++rank) {
    const algorithms::PlanRequest request{rank, nranks, root, levels};
    if (!algorithm->supports(request))
      return refuse(std::string(plan::nameOf(collective)) + " " + words.words[1] +
                    " does not support " + std::to_string(nranks) + " ranks" +
                    (levels == nullptr ? " that are all alike; name hosts, as --hosts 3,1, if it "
                                         "goes by hosts, or give another --nranks"
                                       : " on hosts of " + words.hosts));
    plans.push_back(algorithm->make(request));
  }
  return plans;
}

}  // namespace

base::Result<Collective> collectiveOf(std::string_view name) {
  std::string known;
  for (int i = 0; i <= static_cast<int>(Collective::kScatter); ++i) {
    const auto collective = static_cast<Collective>(i);
    const char* each = plan::nameOf(collective);
    if (bare(each) == bare(name)) return collective;
    known.append(known.empty() ? "" : ", ").append(each);
  }
  return refuse("'" + std::string(name) + "' is no collective; there are " + known);
}

base::Result<plan::Hierarchy> hierarchyOf(const std::string& hosts) {
  plan::Hierarchy hierarchy{0, {plan::Level{}}};
  int32_t host = 0;
  for (const std::string_view item : base::splitList(hosts)) {
    const auto size = base::parseInt(item);
    if (!size.isOk() || size.value() < 1 || size.value() > kMaxRanks)
      return refuse("--hosts: '" + std::string(item) +
                    "' is no number of ranks; write as many as there are on each host, as 3,1");
    hierarchy.levels[0].group.insert(hierarchy.levels[0].group.end(),
                                     static_cast<size_t>(size.value()), host++);
    if (hierarchy.levels[0].group.size() > static_cast<size_t>(kMaxRanks))
      return refuse("--hosts: more than 4096 ranks");
  }
  if (host == 0) return refuse("--hosts: empty; write the ranks of each host, as 3,1");
  hierarchy.nranks = static_cast<int32_t>(hierarchy.levels[0].group.size());
  return plan::simplified(hierarchy);
}

base::Result<int32_t> nranksOf(const PlanWords& words, const plan::Hierarchy* hierarchy) {
  if (hierarchy != nullptr) {
    if (words.nranks && *words.nranks != hierarchy->nranks)
      return refuse("--nranks " + std::to_string(*words.nranks) + " but --hosts has " +
                    std::to_string(hierarchy->nranks) + " ranks; give one of the two");
    return hierarchy->nranks;
  }
  const int32_t nranks = words.nranks.value_or(8);
  if (nranks < 1 || nranks > kMaxRanks)
    return refuse("--nranks " + std::to_string(nranks) + ": give 1 to 4096");
  return nranks;
}

base::Result<std::vector<plan::Plan>> plansOf(const PlanWords& words) {
  if (words.words.size() == 2) return registered(words);
  if (words.words.size() != 1) return refuse("name a file, or a collective and an algorithm");
  if (words.nranks || words.root || !words.hosts.empty())
    return refuse("--nranks, --root and --hosts are of registered algorithms; the file " +
                  words.words[0] + " says its own");
  return plansIn(words.words[0]);
}

base::Result<std::vector<plan::Plan>> plansIn(const std::string& path) {
  OMNES_ASSIGN_OR_RETURN(const std::string text, readFile(path));
  const size_t begin = text.find_first_not_of(" \t\r\n");
  const bool isXml = begin != std::string::npos && text[begin] == '<';
  auto plans = isXml ? plan::fromMscclXml(text) : plan::fromJson(text);
  if (!plans.isOk()) return plans.status().withContext(path);
  return plans;
}

}  // namespace omnes::cli
