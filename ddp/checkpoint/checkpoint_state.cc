#include "ddp/checkpoint/checkpoint_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace ddp {

using Json = nlohmann::ordered_json;

std::string StateText(const Checkpoint& checkpoint) {
  const Json json = {{"step", checkpoint.step},
                     {"epoch", checkpoint.epoch},
                     {"samples_in_epoch", checkpoint.samples_in_epoch},
                     {"counters", checkpoint.counters},
                     {"settings", checkpoint.settings}};
  // A setting may hold any bytes, as paths do.
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

Checkpoint ParseState(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    return {.step = json.at("step").get<int64_t>(),
            .epoch = json.at("epoch").get<int64_t>(),
            .samples_in_epoch = json.at("samples_in_epoch").get<int64_t>(),
            .counters = json.at("counters").get<std::map<std::string, int64_t>>(),
            .settings = json.at("settings").get<std::map<std::string, std::string>>()};
  } catch (const Json::exception& error) {
    throw std::invalid_argument(fmt::format("not the state of a checkpoint: {}", error.what()));
  }
}

}  // namespace ddp
