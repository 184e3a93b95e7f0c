#include "ddp/store/lifeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <memory>
#include <optional>

#include "ddp/errors.h"
#include "ddp/store/socket.h"
#include "ddp/store/tcp_store.h"
#include "ddp/store/tcp_store_server.h"

namespace ddp {
namespace {

using namespace std::chrono_literals;

class LifelineTest : public testing::Test {
 protected:
  StoreAddress Address() const { return {"127.0.0.1", server_->port()}; }
  TcpStore Store() const { return TcpStore("127.0.0.1", server_->port(), {.timeout = 60s}); }

  std::unique_ptr<TcpStoreServer> server_ = std::make_unique<TcpStoreServer>();
};

TEST_F(LifelineTest, AWillIsCarriedOutWhenTheConnectionBreaks) {
  std::optional<Lifeline> lifeline(std::in_place, Address(), 1h);
  lifeline->SetWill({{"lost/3", "host b"}, {"over", "lost host b"}});
  TcpStore store = Store();
  store.Set("over", "another reason");
  EXPECT_FALSE(store.Check({"lost/3"}));
  lifeline.reset();
  EXPECT_EQ(store.Get("lost/3"), "host b");
  EXPECT_EQ(store.Get("over"), "another reason") << "what is there stays";
}

TEST_F(LifelineTest, AndAfterSilence) {
  Lifeline lifeline(Address(), 100ms);
  lifeline.SetWill({{"lost", "silent"}});
  EXPECT_EQ(Store().Get("lost"), "silent");
  const Deadline deadline = DeadlineAfter(60s);
  EXPECT_THROW(
      {
        WaitUntilReady(lifeline.fd(), POLLIN, deadline);
        for (;;) lifeline.Handle();
      },
      CollectiveError);
}

TEST_F(LifelineTest, PingsKeepItAlive) {
  Lifeline lifeline(Address(), 400ms);
  lifeline.SetWill({{"lost", "yes"}});
  const Deadline end = DeadlineAfter(1200ms);
  while (Clock::now() < end) {
    WaitUntilReady(lifeline.fd(), POLLIN, std::min(end, lifeline.next_ping()));
    lifeline.Handle();
  }
  EXPECT_FALSE(Store().Check({"lost"}));
}

TEST_F(LifelineTest, OneMayGoInPeace) {
  TcpStore store = Store();
  {
    Lifeline lifeline(Address(), 1h);
    lifeline.SetWill({{"lost/1", ""}});
    lifeline.SetWill({});
  }
  {
    Lifeline other(Address(), 1h);
    other.SetWill({{"lost/2", ""}});
  }
  store.Wait({"lost/2"});
  EXPECT_FALSE(store.Check({"lost/1"}));
}

TEST_F(LifelineTest, AWillMayEndTheWaitOfAnother) {
  std::optional<Lifeline> first(std::in_place, Address(), 1h);
  first->SetWill({{"a", "first is lost"}});
  StoreWatch watch(Address(), "a", 60s);
  EXPECT_EQ(watch.Take(), std::nullopt);
  first.reset();
  ASSERT_TRUE(WaitUntilReady(watch.fd(), POLLIN, DeadlineAfter(60s)));
  EXPECT_EQ(watch.Take(), "first is lost");
}

TEST_F(LifelineTest, ALostStoreIsAnErrorAtOnce) {
  Lifeline lifeline(Address(), 1h);
  StoreWatch watch(Address(), "never", 60s);
  server_.reset();
  for (const int fd : {lifeline.fd(), watch.fd()}) {
    EXPECT_TRUE(WaitUntilReady(fd, POLLIN, DeadlineAfter(60s)));
  }
  EXPECT_THROW(lifeline.Handle(), CollectiveError);
  EXPECT_THROW(watch.Take(), CollectiveError);
}

TEST_F(LifelineTest, AStoreThatIsSilentIsLost) {
  const FileDescriptor listener = Listen("127.0.0.1", 0);
  EXPECT_THROW(Lifeline({"127.0.0.1", LocalPort(listener.get())}, 50ms), TimeoutError);
}

}  // namespace
}  // namespace ddp
