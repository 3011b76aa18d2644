// Which address and port a rank listens at, names that resolve slowly, and connections whose far
// end is silent.
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "bootstrap_ranks.h"
#include "core/bootstrap/interfaces.h"
#include "core/bootstrap/keep_alive.h"
#include "core/bootstrap/peer_network.h"
#include "core/bootstrap/resolver.h"

namespace omnes::core::bootstrap {
namespace {

using base::Code;
using base::Status;

WaitLimits within(int64_t ms, int abortFd = -1) { return {inMs(ms), &realClock(), abortFd}; }

LocalIdentity identity() {
  EXPECT_TRUE(initCrypto().isOk());
  return {Secret::derive("test", bytesOf("secret")), 1, 0, 2};
}

// ---- Interfaces

Interface interface(const char* name, bool isUp, std::initializer_list<const char*> hosts) {
  Interface made{name, isUp, isUp, std::string_view(name) == "lo", {}};
  for (const char* host : hosts) {
    auto address = numericAddress("tcp:" + std::string(host) + ":0");
    EXPECT_TRUE(address.isOk()) << address.status().message();
    made.addresses.push_back(address.value());
  }
  return made;
}

std::vector<Interface> someInterfaces() {
  return {interface("lo", true, {"127.0.0.1", "[::1]"}),
          interface("dock0", true, {"[fe80::1%lo]"}),
          interface("off0", false, {"10.9.0.1"}),
          interface("bare0", true, {}),
          interface("en1", true, {"[fe80::2%lo]", "[fd00::1]", "10.0.1.1"}),
          interface("en10", true, {"10.0.10.1"})};
}

std::string chosen(const NetworkOptions& options, const std::string& route = {},
                   const std::vector<Interface>& interfaces = someInterfaces()) {
  const auto host = chooseHostAmong(interfaces, options, route);
  if (!host.isOk()) return std::string(host.status().message());
  return host.value().value_or("none");
}

TEST(Interfaces, NamesAreExactAndInOrderOfPreference) {
  EXPECT_EQ(chosen({.interfaces = "en1"}), "10.0.1.1");
  EXPECT_EQ(chosen({.interfaces = "en10"}), "10.0.10.1");
  EXPECT_EQ(chosen({.interfaces = "en10, en1"}), "10.0.10.1");
  EXPECT_EQ(chosen({.interfaces = "enA,off0,bare0,en1"}), "10.0.1.1");
  EXPECT_EQ(chosen({.interfaces = "lo"}, "10.0.1.1"), "127.0.0.1");
  // Of the family that the control connection has.
  EXPECT_EQ(chosen({.interfaces = "en1", .hint = "[fd00::1]"}), "[fd00::1]");
  EXPECT_EQ(chosen({.interfaces = "dock0"}), "[fe80::1%lo]") << "link-local is all there is";
}

TEST(Interfaces, C43ANameThatCannotBeUsedIsExplained) {
  for (const auto& [list, reason] :
       {std::pair{"nope0", "'nope0' does not exist"}, std::pair{"en", "'en' does not exist"},
        std::pair{"^lo", "'^lo' does not exist"}, std::pair{"off0", "'off0' is down"},
        std::pair{"bare0", "'bare0' has no address"}, std::pair{",", "it names none"}}) {
    const auto host = chooseHostAmong(someInterfaces(), {.interfaces = list}, "10.0.1.1");
    expectStatus(host.status(), Code::kInvalidUsage,
                 {"OMNES_IFNAME", list, reason, "lo (127.0.0.1 [::1])", "off0 (down)",
                  "bare0 (no address)", "en10 (10.0.10.1)"});
  }
}

TEST(Interfaces, C43ANameThatDoesNotExistFailsAtTheStart) {
  const NetworkOptions options{.interfaces = "nope0"};
  expectStatus(PeerNetwork::open(identity(), options, realClock()).status(), Code::kInvalidUsage,
               {"OMNES_IFNAME", "nope0", "lo ("});
  expectStatus(makeHostedId({.network = options}).status(), Code::kInvalidUsage,
               {"OMNES_IFNAME", "nope0", "lo ("});
}

TEST(Interfaces, WithoutANameTheHintTheRouteAndTheOrderDecide) {
  EXPECT_EQ(chosen({.hint = "10.0.10.1"}, "10.0.1.1"), "10.0.10.1");
  EXPECT_EQ(chosen({.hint = "10.77.0.1"}, "10.0.1.1"), "10.0.1.1")
      << "the hint is not of this host";
  EXPECT_EQ(chosen({}, "10.0.10.1"), "10.0.10.1");
  EXPECT_EQ(chosen({}), "10.0.1.1");
  auto interfaces = someInterfaces();
  interfaces.resize(4);
  EXPECT_EQ(chosen({}, {}, interfaces), "[fe80::1%lo]");
  interfaces.erase(interfaces.begin() + 1);
  EXPECT_EQ(chosen({}, {}, interfaces), "127.0.0.1");
  interfaces.erase(interfaces.begin());
  EXPECT_EQ(chosen({}, {}, interfaces), "none");
  auto unplugged = someInterfaces();
  unplugged[4].isRunning = false;
  EXPECT_EQ(chosen({}, {}, unplugged), "10.0.10.1");
}

TEST(Interfaces, TheRealOnesCanBeListenedAt) {
  const auto host = chooseHost({});
  ASSERT_TRUE(host.isOk()) << host.status().message();
  if (!host.value().has_value()) GTEST_SKIP() << "no interface is up";
  const auto socket = listenOn("tcp:" + *host.value() + ":0");
  EXPECT_TRUE(socket.isOk()) << socket.status().message();
}

TEST(LocalAddress, IsTheNearEndOfTheControlConnection) {
  for (const char* host : {"127.0.0.1", "[::1]"}) {
    const std::string address = "tcp:" + std::string(host) + ":0";
    if (!listenOn(address).isOk()) continue;
    const auto joined = joinAll(freshId(address).point, ranks(1));
    ASSERT_TRUE(joined[0].isOk()) << joined[0].status().message();
    EXPECT_EQ(joined[0].value()->localAddress(), host);
  }
  const auto local = joinAll(freshId().point, ranks(1));
  ASSERT_TRUE(local[0].isOk());
  EXPECT_EQ(local[0].value()->localAddress(), "");
}

// ---- Ports

// Ports next to each other that nobody has; kept free by nothing, so a test tries again.
uint16_t portOf(const std::string& address) {
  return static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

TEST(Ports, AListenerTakesTheFirstFreeOneOfTheRange) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    auto taken = listenOn("tcp:127.0.0.1:0");
    ASSERT_TRUE(taken.isOk()) << taken.status().message();
    const uint16_t port = portOf(taken.value().address);
    if (port > 65000) continue;
    const ListenOptions options{.ports = {port, static_cast<uint16_t>(port + 20)}};
    const auto socket = listenOn("tcp:127.0.0.1:0", options);
    if (!socket.isOk()) continue;
    EXPECT_GT(portOf(socket.value().address), port);
    EXPECT_LE(portOf(socket.value().address), port + 20);
    return;
  }
  FAIL() << "no range of 21 ports had a free one";
}

TEST(Ports, C49AllOfTheRangeTakenIsSaidWithinASecond) {
  const auto taken = listenOn("tcp:127.0.0.1:0");
  ASSERT_TRUE(taken.isOk()) << taken.status().message();
  const std::string port = std::to_string(portOf(taken.value().address));
  const NetworkOptions options{.ports = port, .hint = "127.0.0.1"};
  const auto start = realClock().now();
  expectStatus(PeerNetwork::open(identity(), options, realClock()).status(), Code::kSystemError,
               {"address in use", "OMNES_PORT_RANGE", port.c_str(), "127.0.0.1"});
  expectStatus(makeHostedId({.network = options}).status(), Code::kSystemError,
               {"address in use", "OMNES_PORT_RANGE", port.c_str()});
  EXPECT_LT(realClock().now() - start, std::chrono::seconds(1));
}

TEST(Ports, BadRangesAreRefused) {
  for (const char* bad : {"0", "65536", "5000-", "-5000", "5100-5000", "a", "5000-5100-5200",
                          "5000,5001", " 5000", "0-10", "5000--1"}) {
    expectStatus(base::parsePortRange(bad).status(), Code::kInvalidArgument, {bad, "5000-5100"});
    expectStatus(PeerNetwork::open(identity(), {.ports = bad}, realClock()).status(),
                 Code::kInvalidArgument, {"OMNES_PORT_RANGE", bad});
    expectStatus(makeHostedId({.network = {.ports = bad}}).status(), Code::kInvalidArgument,
                 {"OMNES_PORT_RANGE", bad});
  }
  EXPECT_TRUE(base::parsePortRange("").value().isAny());
  EXPECT_EQ(base::formatPortRange(base::parsePortRange("5000").value()), "5000");
  EXPECT_EQ(base::formatPortRange(base::parsePortRange("1-65535").value()), "1-65535");
}

// ---- The address of a unique id

std::string addressOfId(const IdOptions& options) {
  const auto hosted = makeHostedId(options);
  EXPECT_TRUE(hosted.isOk()) << hosted.status().message();
  if (!hosted.isOk()) return {};
  hosted.value().host->stop();
  const auto id = UniqueId::decode(hosted.value().id);
  EXPECT_TRUE(id.isOk());
  EXPECT_EQ(id.value().address, hosted.value().host->address());
  return id.value().address;
}

TEST(IdAddress, IsReachableFromOtherHostsUnlessAllIsLocal) {
  const auto host = chooseHost({});
  ASSERT_TRUE(host.isOk());
  if (!host.value().has_value()) GTEST_SKIP() << "no interface is up";
  EXPECT_TRUE(addressOfId({}).starts_with("tcp:" + *host.value() + ":"));
  EXPECT_TRUE(addressOfId({.network = {.interfaces = "lo"}}).starts_with("tcp:127.0.0.1:"));
  EXPECT_TRUE(addressOfId({.isLocal = true}).starts_with("unix:@omnes-"));
  EXPECT_TRUE(allHostsEnd());
}

// ---- Names that resolve slowly

TEST(Resolver, FindsNames) {
  const auto found = resolveName("localhost", "5000", within(kPatientMs));
  ASSERT_TRUE(found.isOk()) << found.status().message();
  const std::string host = hostText(found.value().front().storage);
  EXPECT_TRUE(host == "127.0.0.1" || host == "[::1]") << host;
  expectStatus(resolveName("no-such-host.invalid", "5000", within(kPatientMs)).status(),
               Code::kSystemError, {"no-such-host.invalid", "cannot be resolved"});
}

TEST(Resolver, IsAbandonedAtTheDeadlineAndOnAbort) {
  // A resolver that answers when it is let go.
  struct Gate {
    std::atomic<bool> isOpen{false};
    std::atomic<int> left{0};
  };
  const auto gate = std::make_shared<Gate>();
  const auto slow = [gate]() -> AddressList {
    // R1: pairs with the store below, R2: with the load at the end.
    gate->isOpen.wait(false, std::memory_order_acquire);
    gate->left.fetch_add(1, std::memory_order_release);
    return Status(Code::kSystemError, "too late");
  };
  auto start = realClock().now();
  expectStatus(resolveNameWith(slow, "sluggish", within(50)).status(), Code::kTimeout,
               {"'sluggish'", "timed out"});
  const auto abort = base::EventFd::open();
  ASSERT_TRUE(abort.isOk());
  abort.value().signal();
  expectStatus(resolveNameWith(slow, "sluggish", within(kPatientMs, abort.value().fd())).status(),
               Code::kInvalidUsage, {"aborted"});
  EXPECT_LT(realClock().now() - start, std::chrono::seconds(5));
  gate->isOpen.store(true, std::memory_order_release);
  gate->isOpen.notify_all();
  EXPECT_TRUE(eventually([&] { return gate->left.load(std::memory_order_acquire) == 2; }));
}

// ---- Silent connections

struct Connection {
  base::UniqueFd near;
  base::UniqueFd far;
};

Connection connectionOverLoopback() {
  auto listening = listenOn("tcp:127.0.0.1:0");
  EXPECT_TRUE(listening.isOk()) << listening.status().message();
  auto attempt = connectOnce(listening.value().address, within(kPatientMs));
  EXPECT_TRUE(attempt.isOk() && attempt.value().error == 0);
  base::UniqueFd far(::accept4(listening.value().fd.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_TRUE(far.isOpen());
  return {std::move(attempt.value().fd), std::move(far)};
}

SilenceLimits shortLimits() {
  return {std::chrono::seconds(1), std::chrono::seconds(1), 2, std::chrono::milliseconds(1500)};
}

void fillUntilFull(int fd, KeepAlive* keepAlive) {
  const std::vector<uint8_t> bytes(65536);
  const base::Deadline deadline = inMs(kPatientMs);
  // Full is when nothing more fits for a while: the window closes some time after the first
  // refusal.
  for (int refusals = 0; refusals < 200 && !deadline.hasPassed(realClock());) {
    const IoResult result = sendSome(fd, bytes);
    keepAlive->afterWrite();
    refusals = result.state == IoState::kAgain ? refusals + 1 : 0;
    if (result.state == IoState::kAgain) ::poll(nullptr, 0, 1);
  }
}

// A process that is stopped, or busy, does not read; but its kernel answers. Without KeepAlive's
// care the limit of unacknowledged bytes ends such a connection.
TEST(KeepAlive, APeerThatDoesNotReadIsNotDead) {
  const Connection plain = connectionOverLoopback();
  KeepAlive careless(plain.near.get(), shortLimits());
  const Connection cared = connectionOverLoopback();
  KeepAlive careful(cared.near.get(), shortLimits());
  fillUntilFull(cared.near.get(), &careful);
  EXPECT_TRUE(careful.isSuspended());
  KeepAlive none;
  fillUntilFull(plain.near.get(), &none);
  // On a kernel that does not close the careless connection there is nothing to take care of.
  pollfd dead{plain.near.get(), 0, 0};
  const bool wasClosed = ::poll(&dead, 1, 8000) == 1;
  RecordProperty("kernelClosesFullWindows", wasClosed ? "yes" : "no");
  pollfd alive{cared.near.get(), 0, 0};
  EXPECT_EQ(::poll(&alive, 1, wasClosed ? 1000 : 0), 0);
  // It reads again: all is as before.
  std::vector<uint8_t> sink(1 << 20);
  ASSERT_TRUE(eventually([&] {
    receiveSome(cared.far.get(), sink);
    careful.afterWrite();
    return !careful.isSuspended();
  }));
}

// Both ends live in a network of their own, whose only interface is then switched off.
void setLoopback(bool isUp) {
  const base::UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  ASSERT_EQ(::ioctl(fd.get(), SIOCGIFFLAGS, &request), 0);
  request.ifr_flags =
      static_cast<short>(isUp ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
  ASSERT_EQ(::ioctl(fd.get(), SIOCSIFFLAGS, &request), 0);
}

// Runs `body` in a thread with a network of its own; its threads inherit it. False: not allowed.
bool inOwnNetwork(const std::function<void()>& body) {
  bool isAllowed = false;
  std::thread thread([&] {
    isAllowed = ::unshare(CLONE_NEWNET) == 0;
    if (isAllowed) body();
  });
  thread.join();
  return isAllowed;
}

TEST(KeepAlive, AVanishedHostIsNoticed) {
  const bool isAllowed = inOwnNetwork([] {
    setLoopback(true);
    const Connection idle = connectionOverLoopback();
    const Connection busy = connectionOverLoopback();
    KeepAlive idleWatch(idle.near.get(), shortLimits());
    KeepAlive busyWatch(busy.near.get(), shortLimits());
    setLoopback(false);
    sendSome(busy.near.get(), bytesOf("anybody there?"));
    busyWatch.afterWrite();
    EXPECT_FALSE(busyWatch.isSuspended());
    const auto start = realClock().now();
    for (const Connection* connection : {&idle, &busy}) {
      pollfd entry{connection->near.get(), POLLIN, 0};
      EXPECT_EQ(::poll(&entry, 1, static_cast<int>(kPatientMs)), 1);
    }
    EXPECT_LT(realClock().now() - start, std::chrono::seconds(5 * 3));
  });
  if (!isAllowed) GTEST_SKIP() << "only root may make a network namespace";
}

// The connections of a meeting are watched with the real limits at both ends.
TEST(KeepAlive, AMeetingNoticesThatTheNetworkIsGone) {
  const bool isAllowed = inOwnNetwork([] {
    setLoopback(true);
    const Meetable meetable = freshId("tcp:127.0.0.1:0");
    const auto joined = joinAll(meetable.point, ranks(2));
    ASSERT_TRUE(joined[0].isOk() && joined[1].isOk());
    setLoopback(false);
    const auto start = realClock().now();
    pollfd entry{joined[0].value()->controlFd(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, 50'000), 1);
    EXPECT_LT(realClock().now() - start, std::chrono::seconds(50));
    EXPECT_GE(realClock().now() - start, std::chrono::seconds(5)) << "an idle second is no death";
    // And so does the host, of which no rank is left then.
    EXPECT_TRUE(allHostsEnd());
  });
  if (!isAllowed) GTEST_SKIP() << "only root may make a network namespace";
}

// ---- Networks that lack something

// Case C45: with the loopback only, ids lead over it; with nothing at all they are local.
TEST(BareNetwork, C45LoopbackOnlyOrNothing) {
  const bool isAllowed = inOwnNetwork([] {
    for (const bool hasLoopback : {false, true}) {
      setLoopback(hasLoopback);
      auto hosted = makeHostedId({});
      ASSERT_TRUE(hosted.isOk()) << hosted.status().message();
      const std::string address = hosted.value().host->address();
      EXPECT_TRUE(address.starts_with(hasLoopback ? "tcp:127.0.0.1:" : "unix:@omnes-")) << address;
      const auto point = MeetingPoint::fromUniqueId(hosted.value().id);
      ASSERT_TRUE(point.isOk());
      for (const JoinResult& result : joinAll(point.value(), ranks(3)))
        EXPECT_TRUE(result.isOk()) << result.status().message();
      const auto network = PeerNetwork::open(identity(), {}, realClock());
      if (hasLoopback) {
        EXPECT_TRUE(network.isOk()) << network.status().message();
      } else {
        expectStatus(network.status(), Code::kSystemError, {"no network interface is up"});
      }
    }
  });
  if (!isAllowed) GTEST_SKIP() << "only root may make a network namespace";
}

// Case C52: a queue of 16 for many who come at once: full queues are tried again.
TEST(BareNetwork, C52AShortQueueIsNoHindrance) {
  const bool isAllowed = inOwnNetwork([] {
    setLoopback(true);
    std::ofstream("/proc/sys/net/core/somaxconn") << 16;
    const Meetable meetable = freshId("tcp:127.0.0.1:0");
    const auto start = realClock().now();
    for (const JoinResult& result : joinAll(meetable.point, ranks(64)))
      EXPECT_TRUE(result.isOk()) << result.status().message();
    EXPECT_LT(realClock().now() - start, std::chrono::seconds(5 * 3));
  });
  if (!isAllowed) GTEST_SKIP() << "only root may make a network namespace";
}

}  // namespace
}  // namespace omnes::core::bootstrap
