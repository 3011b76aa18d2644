#include "core/comm/algorithm_choice.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace omnes::core {
namespace {

using algorithms::Algorithm;
using base::Code;
using base::Result;
using base::Status;
using plan::Collective;

constexpr Collective kNamed[] = {
    Collective::kAllReduce,  Collective::kReduceScatter,  Collective::kAllGather,
    Collective::kBarrier,    Collective::kReduce,         Collective::kBroadcast,
    Collective::kAllToAll,   Collective::kGather,         Collective::kScatter,
    Collective::kAllGatherV, Collective::kReduceScatterV, Collective::kAllToAllV,
    Collective::kGatherV,    Collective::kScatterV};

// Other names, tried in this order where a collective has no algorithm of the name itself. "tree"
// is what NCCL and the users' tables call whatever needs a logarithmic number of rounds.
struct Alias {
  std::string_view name;
  std::string_view meaning;
};
constexpr Alias kAliases[] = {
    {"tree", "double_binary_tree"}, {"tree", "binomial"}, {"tree", "bruck"}};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    const size_t end = text.find(separator);
    out.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

const Algorithm* resolve(Collective collective, std::string_view name) {
  if (const Algorithm* found = algorithms::find(collective, name)) return found;
  for (const Alias& alias : kAliases)
    if (alias.name == name)
      if (const Algorithm* found = algorithms::find(collective, alias.meaning)) return found;
  return nullptr;
}

std::optional<Collective> collectiveNamed(std::string_view name) {
  if (name == "bcast") return Collective::kBroadcast;
  for (const Collective collective : kNamed)
    if (base::toLower(plan::nameOf(collective)) == name) return collective;
  return std::nullopt;
}

std::string namesOfCollectives() {
  std::string out;
  for (const Collective collective : kNamed)
    out += (out.empty() ? "" : ", ") + base::toLower(plan::nameOf(collective));
  return out;
}

Status bad(const std::string& text) { return Status(Code::kInvalidArgument, "OMNES_ALGO " + text); }

Status checkName(std::string_view name, std::optional<Collective> collective) {
  const bool isKnown = collective.has_value()
                           ? resolve(*collective, name) != nullptr
                           : std::any_of(std::begin(kNamed), std::end(kNamed), [&](Collective any) {
                               return resolve(any, name) != nullptr;
                             });
  if (isKnown) return Status::ok();
  const std::string valid = namesOfAlgorithms(collective);
  std::string text = "\"" + std::string(name) + "\" is no algorithm";
  if (collective.has_value()) text += std::string(" for ") + plan::nameOf(*collective);
  return bad(text + "; valid: " + (valid.empty() ? "none, it has only one way" : valid));
}

// A list without its collective.
Result<AlgorithmChoice::List> readList(std::string_view text,
                                       std::optional<Collective> collective) {
  AlgorithmChoice::List list;
  list.excludes = !text.empty() && text.front() == '^';
  if (list.excludes) text.remove_prefix(1);
  for (const std::string_view name : split(text, ',')) {
    OMNES_RETURN_IF_ERROR(checkName(name, collective));
    if (std::find(list.names.begin(), list.names.end(), name) == list.names.end())
      list.names.emplace_back(name);
  }
  return list;
}

}  // namespace

std::string namesOfAlgorithms(std::optional<Collective> collective) {
  std::vector<std::string_view> names;
  std::string out;
  for (const Algorithm& algorithm : algorithms::all()) {
    if (collective.has_value() && algorithm.collective != *collective) continue;
    if (std::find(names.begin(), names.end(), algorithm.name) != names.end()) continue;
    names.push_back(algorithm.name);
    out.append(out.empty() ? "" : ", ").append(algorithm.name);
  }
  return out;
}

std::vector<const Algorithm*> AlgorithmChoice::List::algorithmsOf(Collective collective) const {
  std::vector<const Algorithm*> out;
  for (const std::string& name : names) {
    const Algorithm* algorithm = resolve(collective, name);
    if (algorithm != nullptr && std::find(out.begin(), out.end(), algorithm) == out.end())
      out.push_back(algorithm);
  }
  return out;
}

std::string AlgorithmChoice::List::text() const {
  std::string out = excludes ? "^" : "";
  for (size_t i = 0; i < names.size(); ++i) out.append(i == 0 ? "" : ",").append(names[i]);
  return out;
}

Status AlgorithmChoice::addClause(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    if (forAll_.has_value())
      return bad("has two lists for all collectives, \"" + forAll_->text() + "\" and \"" +
                 std::string(text) + "\"");
    OMNES_ASSIGN_OR_RETURN(forAll_, readList(text, std::nullopt));
    return Status::ok();
  }
  const std::string_view name = trimmed(text.substr(0, colon));
  const std::optional<Collective> collective = collectiveNamed(name);
  if (!collective.has_value())
    return bad("\"" + std::string(name) + "\" is no collective; valid: " + namesOfCollectives());
  for (const Clause& clause : clauses_)
    if (clause.collective == *collective)
      return bad(std::string("has two lists for ") + plan::nameOf(*collective));
  OMNES_ASSIGN_OR_RETURN(List list, readList(trimmed(text.substr(colon + 1)), collective));
  const auto named = list.algorithmsOf(*collective);
  const auto all = algorithms::all();
  const bool leavesOne = std::any_of(all.begin(), all.end(), [&](const Algorithm& algorithm) {
    return algorithm.collective == *collective &&
           std::find(named.begin(), named.end(), &algorithm) == named.end();
  });
  if (list.excludes && !leavesOne)
    return bad("\"" + list.text() + "\" leaves no algorithm for " + plan::nameOf(*collective) +
               "; there are " + namesOfAlgorithms(collective));
  clauses_.push_back({*collective, std::move(list)});
  return Status::ok();
}

Result<AlgorithmChoice> AlgorithmChoice::parse(std::string_view text) {
  AlgorithmChoice out;
  const std::string lower = base::toLower(std::string(text));
  for (const std::string_view clause : split(lower, ';')) {
    if (!clause.empty()) OMNES_RETURN_IF_ERROR(out.addClause(clause));
  }
  std::sort(out.clauses_.begin(), out.clauses_.end(),
            [](const Clause& a, const Clause& b) { return a.collective < b.collective; });
  return out;
}

const AlgorithmChoice::List* AlgorithmChoice::of(Collective collective) const {
  for (const Clause& clause : clauses_)
    if (clause.collective == collective) return &clause.list;
  return forAll_.has_value() ? &*forAll_ : nullptr;
}

std::string AlgorithmChoice::text() const {
  std::string out = forAll_.has_value() ? forAll_->text() : "";
  for (const Clause& clause : clauses_)
    out += (out.empty() ? "" : ";") + base::toLower(plan::nameOf(clause.collective)) + ":" +
           clause.list.text();
  return out;
}

}  // namespace omnes::core
