#include "ddp/collectives/flight_record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

namespace ddp {
namespace {

using nlohmann::json;
using Operation = FlightRecord::Operation;

Operation::State ParseState(const std::string& name) {
  if (name == "issued") return Operation::State::kIssued;
  if (name == "started") return Operation::State::kStarted;
  if (name == "done") return Operation::State::kDone;
  if (name == "failed") return Operation::State::kFailed;
  throw std::invalid_argument(fmt::format("'{}' isn't a state of an operation", name));
}

Operation ParseOperation(const json& object) {
  return {.kind = object.at("operation"),
          .sequence_number = object.at("sequence_number"),
          .call = object.at("call"),
          .counts_hash = object.at("counts_hash"),
          .state = ParseState(object.at("state")),
          .peer = object.value("peer", -1),
          .issued_unix_ns = object.at("issued_unix_ns"),
          .ended_unix_ns = object.at("ended_unix_ns")};
}

FlightRecord ParseObject(const json& object) {
  FlightRecord record = {.group = object.at("group"),
                         .backend = object.at("backend"),
                         .rank = object.at("rank"),
                         .size = object.at("size"),
                         .host = object.at("host"),
                         .pid = object.at("pid"),
                         .failure = object.at("failure"),
                         .written_unix_ns = object.at("written_unix_ns"),
                         .operations = {}};
  if (record.rank < 0 || record.rank >= record.size) {
    throw std::invalid_argument(
        fmt::format("rank {} is not in a group of {}", record.rank, record.size));
  }
  for (const json& operation : object.at("operations")) {
    record.operations.push_back(ParseOperation(operation));
    if (record.operations.back().peer >= record.size) {
      throw std::invalid_argument(fmt::format("peer {} is not in a group of {}",
                                              record.operations.back().peer, record.size));
    }
  }
  return record;
}

}  // namespace

FlightRecord ParseFlightRecord(const std::string& text) {
  const json object = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (object.is_discarded()) throw std::invalid_argument("not JSON");
  if (!object.is_object() || object.value("format", json()) != kFlightRecordFormat) {
    throw std::invalid_argument(
        fmt::format("not a flight record: \"format\" isn't \"{}\"", kFlightRecordFormat));
  }
  try {
    return ParseObject(object);
  } catch (const json::exception& error) {
    // "[json.exception.out_of_range.403] key 'rank' not found"
    const std::string_view what = error.what();
    throw std::invalid_argument(
        fmt::format("not a flight record: {}", what.substr(what.find("] ") + 2)));
  }
}

}  // namespace ddp
