// What OMNES_ALGO (config.algo) says: which algorithms may run which collective, in which order.
//
//   text    = clause { ";" clause }
//   clause  = [ collective ":" ] [ "^" ] name { "," name }
//
// A clause without a collective is about all that no other clause names. A list is an order of
// preference; with ^ it names those that are left out. Spellings do not depend on case, and those
// of NCCL are understood where they name something that exists here. As NCCL_ALGO of NCCL 2.24.
//
// Immutable value type.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/registry.h"
#include "base/status.h"

namespace omnes::core {

class AlgorithmChoice {
 public:
  struct List {
    bool excludes = false;
    std::vector<std::string> names;  // lower case
    // The algorithms of a collective that it names, in its order.
    std::vector<const algorithms::Algorithm*> algorithmsOf(plan::Collective collective) const;
    std::string text() const;
    bool operator==(const List&) const = default;
  };

  // kInvalidArgument names the token that means nothing and lists what is valid in its place. A
  // name under a collective must be one of its algorithms; in a clause for all, one of any
  // collective's.
  static base::Result<AlgorithmChoice> parse(std::string_view text);

  bool isEmpty() const { return !forAll_.has_value() && clauses_.empty(); }
  // Null: nothing was said about it.
  const List* of(plan::Collective collective) const;
  // The same text for all texts that mean the same up to case, blanks and the order of clauses.
  std::string text() const;

 private:
  struct Clause {
    plan::Collective collective;
    List list;
  };
  base::Status addClause(std::string_view text);

  std::optional<List> forAll_;
  std::vector<Clause> clauses_;
};

// The names of a collective's algorithms, or those of all collectives, "a, b, c".
std::string namesOfAlgorithms(std::optional<plan::Collective> collective);

}  // namespace omnes::core
