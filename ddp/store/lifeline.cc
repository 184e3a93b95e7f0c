#include "ddp/store/lifeline.h"

#include <fmt/format.h>

#include <utility>

#include "ddp/errors.h"
#include "ddp/store/socket.h"

namespace ddp {
namespace {

constexpr int kPingsPerSilence = 4;
// A value may come at any time.
constexpr Duration kForever = std::chrono::hours(24 * 365);

std::string Lost(const std::string& name, const std::string& why) {
  return fmt::format("lost the store at {}: {}", name, why);
}

}  // namespace

Lifeline::Lifeline(const StoreAddress& address, Duration silence)
    : name_(FormatAddress(address.host, address.port)),
      silence_(silence),
      connection_(ConnectToStore(address, DeadlineAfter(silence), silence)),
      heard_(Clock::now()) {
  SetWill({});
}

void Lifeline::SetWill(std::map<std::string, std::string> will) {
  Message request{.kind = Message::Kind::kWill, .number = silence_.count()};
  for (auto& [key, value] : will) {
    request.strings.push_back(key);
    request.strings.push_back(std::move(value));
  }
  request_ = Encode(request);
  Ping();
  try {
    for (; num_unanswered_ > 0; --num_unanswered_) connection_.Receive(DeadlineAfter(silence_));
  } catch (const std::runtime_error& error) {
    throw CollectiveError(Lost(name_, error.what()));
  }
  heard_ = Clock::now();
}

void Lifeline::Handle() {
  try {
    for (; connection_.TryReceive(); --num_unanswered_) heard_ = Clock::now();
  } catch (const std::runtime_error& error) {
    throw CollectiveError(Lost(name_, error.what()));
  }
  if (Clock::now() - heard_ > silence_) {
    throw TimeoutError(Lost(name_, "no answer for " + FormatSeconds(silence_)));
  }
  if (Clock::now() >= next_ping_) Ping();
}

// The will itself is the ping: it says what is to be said, and is answered.
void Lifeline::Ping() {
  try {
    connection_.Send(request_, DeadlineAfter(silence_));
  } catch (const std::runtime_error& error) {
    throw CollectiveError(Lost(name_, error.what()));
  }
  ++num_unanswered_;
  next_ping_ = DeadlineAfter(silence_ / kPingsPerSilence);
}

StoreWatch::StoreWatch(const StoreAddress& address, const std::string& key, Duration timeout)
    : name_(FormatAddress(address.host, address.port)),
      connection_(ConnectToStore(address, DeadlineAfter(timeout), timeout)) {
  const Message request{.kind = Message::Kind::kGet, .number = kForever.count(), .strings = {key}};
  connection_.Send(Encode(request), DeadlineAfter(timeout));
}

std::optional<std::string> StoreWatch::Take() {
  try {
    const std::optional<Message> answer = connection_.TryReceive();
    if (!answer || answer->kind != Message::Kind::kDone) return std::nullopt;
    return answer->strings.at(0);
  } catch (const std::runtime_error& error) {
    throw CollectiveError(Lost(name_, error.what()));
  }
}

}  // namespace ddp
