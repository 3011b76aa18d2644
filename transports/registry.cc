#include "transports/registry.h"

#include "transports/shm/shm.h"
#include "transports/tcp/tcp.h"

namespace omnes::transports {

std::span<const TransportTable* const> all() {
  // `mem` is not here: its ranks share a thread, which only tests and simulations have.
  static const TransportTable* const tables[] = {&shm::table(), &tcp::table()};
  return tables;
}

const TransportTable* find(std::string_view name) {
  for (const TransportTable* table : all())
    if (name == table->name) return table;
  return nullptr;
}

}  // namespace omnes::transports
