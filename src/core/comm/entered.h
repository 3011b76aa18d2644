// What a rank says about itself through the control connection, to ranks that cannot read its
// board: the operation it entered last, and the one it finished. docs/wire.md describes the bytes.
//
// Value type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/board.h"

namespace omnes::core {

struct Entered {
  base::BoardEntry entry;  // sequence 0: none yet
  uint64_t finished = 0;
  bool isAnswer = false;  // to the same from the other side, and not to be answered

  std::string encode() const;
  // Empty when the text is none of ours. The numbers may be anything.
  static std::optional<Entered> decode(std::string_view payload);
};

}  // namespace omnes::core
