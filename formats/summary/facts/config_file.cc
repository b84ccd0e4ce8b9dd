#include "formats/summary/facts/config_file.h"

#include "formats/directory/small_json.h"
#include "formats/summary/facts/kind.h"

namespace weightfs::summary {

Config read_config(SmallFiles& files) {
  Config out;
  auto& warnings = files.warnings();
  const Map* object = files.object("config.json");
  if (object != nullptr && directory::is_model_config(*object)) {
    out = open_config(Fields(object, "config.json", warnings));
  } else if (const Map* const params = files.object("params.json");
             params != nullptr && params->find("dim") != nullptr) {
    out = open_config(Fields(params, "params.json", warnings));
  } else if (const Map* const chat = files.object("mlc-chat-config.json")) {
    out = open_config(Fields(chat, "mlc-chat-config.json", warnings));
  }
  if (is_encoder_decoder_type(out.model_type)) out.is_encoder_decoder = true;
  return out;
}

}  // namespace weightfs::summary
