// The covering design: which cases are played.
//
// Every triple of operator, type and algorithm of every collective is played on every number of
// ranks, as threads and as processes; sizes, offsets, in place and roots go around with them so
// that each pair of values of any two factors meets, which Coverage counts afterwards. The list is
// the same on every run and in every process.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "matrix/case.h"

namespace omnes::tests::matrix {

// In the order in which they are played.
std::vector<Group> allGroups();
// The cases of a group. repeats: how often each triple is played, with other sizes, offsets and
// roots each time.
std::vector<Case> casesOf(const Group& group, int repeats);

// Which pairs of values have been seen, of those that there are.
class Coverage {
 public:
  void add(const Case& c);
  // Pairs of values of two factors that can meet, and how many of them have.
  struct Count {
    size_t seen = 0;
    size_t all = 0;
  };
  Count pairs() const;
  Count triples() const;
  // One pair or triple that has not been seen; empty when all have.
  std::string firstMissing() const;

 private:
  // By number, see design.cc.
  std::set<uint32_t> pairs_;
  std::set<uint32_t> triples_;
};

}  // namespace omnes::tests::matrix
