// Prepared operations by shape: the second call of a shape does no planning and no allocation.
//
// Direct-mapped over the most recent shapes, so that a program with endless shapes stays bounded.
// Used by the thread that calls operations. What find() and insert() return is valid until the next
// insert(); whoever needs it for longer copies the pointer.
#pragma once

#include <array>
#include <memory>

#include "base/hash.h"
#include "core/exec/prepared.h"

namespace omnes::core {

class OperationCache {
 public:
  using Pointer = std::shared_ptr<const Prepared>;

  // Null when the shape is not there.
  const Pointer* find(const Shape& shape) const {
    const Pointer& slot = slots_[indexOf(shape)];
    return slot && slot->shape == shape ? &slot : nullptr;
  }
  const Pointer* insert(Prepared prepared) {
    Pointer& slot = slots_[indexOf(prepared.shape)];
    slot = std::make_shared<const Prepared>(std::move(prepared));
    return &slot;
  }

 private:
  static constexpr size_t kSlots = 256;

  static size_t indexOf(const Shape& shape) {
    const uint64_t kind = uint64_t{static_cast<uint8_t>(shape.collective)} << 16 |
                          uint64_t{static_cast<uint8_t>(shape.type)} << 8 |
                          static_cast<uint8_t>(shape.op);
    return base::mix64(shape.count ^ kind << 40) % kSlots;
  }

  std::array<Pointer, kSlots> slots_;
};

}  // namespace omnes::core
