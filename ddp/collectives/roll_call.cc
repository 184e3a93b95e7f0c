#include "ddp/collectives/roll_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "ddp/collectives/store_values.h"
#include "ddp/store/store.h"

namespace ddp {
namespace {

constexpr char kCallerKey[] = "roll_call";
constexpr char kVerdictKey[] = "roll_call/absent";
// A store that is gone must not delay the error.
constexpr Duration kStoreTimeout = std::chrono::milliseconds(200);
// What a watch needs to hear of the roll call and to answer on a busy machine.
constexpr Duration kShortest = std::chrono::milliseconds(100);
constexpr Duration kLongest = std::chrono::seconds(1);

std::string AnswerKey(int rank) { return fmt::format("{}/{}", kCallerKey, rank); }

bool AwaitKey(Store& store, const std::string& key, Duration limit) {
  try {
    store.Wait({key}, limit);
    return true;
  } catch (const TimeoutError&) {
    return false;
  }
}

// In small steps, to end soon after `has_failed`.
bool AwaitKey(Store& store, const std::string& key, Deadline deadline,
              const std::function<bool()>& has_failed) {
  constexpr Duration kStep = std::chrono::milliseconds(100);
  while (!has_failed()) {
    const Duration left = TimeLeft(deadline);
    if (AwaitKey(store, key, std::min(left, kStep))) return true;
    if (left <= kStep) return false;
  }
  return false;
}

// Returns whether it is this rank that calls.
bool BecomeCaller(Store& store, int rank) {
  const std::string self = std::to_string(rank);
  return store.CompareAndSet(kCallerKey, "", self, kStoreTimeout) == self;
}

}  // namespace

Duration RollCallTime(Duration timeout) {
  const Duration time = std::min(timeout / 10, kLongest);
  return time < kShortest ? Duration::zero() : time;
}

std::optional<std::vector<int>> CallRoll(Store& store, int rank, int size, Duration limit,
                                         const std::function<bool()>& has_failed) try {
  AnswerRollCall(store, rank);
  if (!BecomeCaller(store, rank)) {
    if (!AwaitKey(store, kVerdictKey, DeadlineAfter(limit), has_failed)) return std::nullopt;
    return DecodeRanks(kVerdictKey, store.Get(kVerdictKey, kStoreTimeout), size);
  }
  // The others, whose time may have begun together with this rank's, need time for the verdict.
  const Deadline deadline = DeadlineAfter(limit * 3 / 4);
  std::vector<int> absent;
  for (int peer = 0; peer < size; ++peer) {
    if (!AwaitKey(store, AnswerKey(peer), deadline, has_failed)) absent.push_back(peer);
  }
  // That this rank itself isn't there says that the store has stopped answering.
  if (has_failed() || std::ranges::count(absent, rank) != 0) return std::nullopt;
  store.Set(kVerdictKey, EncodeRanks(absent), kStoreTimeout);
  return absent;
} catch (const std::exception&) {
  return std::nullopt;  // the error that is being told matters more
}

bool AwaitRollCall(Store& store, Duration limit) { return AwaitKey(store, kCallerKey, limit); }

void AnswerRollCall(Store& store, int rank) { store.Set(AnswerKey(rank), "here", kStoreTimeout); }

}  // namespace ddp
