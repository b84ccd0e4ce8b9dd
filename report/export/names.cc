#include "report/export/names.h"

#include <fmt/core.h>

namespace weightfs::exporting {
namespace {

mapping::GgufType type_of(views::FileTypes types, bool is_q8_0) {
  using mapping::GgufType;
  if (is_q8_0) return GgufType::q8_0;
  if (types == views::FileTypes::float32) return GgufType::float32;
  if (types == views::FileTypes::float16) return GgufType::float16;
  return types == views::FileTypes::bfloat16 ? GgufType::bfloat16 : GgufType::stored;
}

Result<ModelPtr> with_names_of_gguf(const ModelPtr& model, const std::string& source, const Naming& naming,
                                    Request& request) {
  if (naming.has_patterns)
    return failure(Code::unsupported,
                   "a GGUF with some tensors of a repository does not load; use --names hf to write it, with the names "
                   "of the repository");
  auto made = mapping::as_gguf(model, mapping::repository_name(*model, source), type_of(request.types, naming.is_q8_0));
  if (!made)
    return failure(with_message(made.error(), fmt::format("{}; nothing was written; --names hf writes a GGUF with the "
                                                          "names of the repository, which no program loads",
                                                          made.error().message)));
  request.types = views::FileTypes::stored;
  return made;
}

}  // namespace

Result<ModelPtr> named_model(const ModelPtr& model, const std::string& source, const Naming& naming, Request& request) {
  const bool is_gguf = model->gguf_keys != nullptr;
  if (naming.names == Names::hub && is_gguf) return mapping::as_hub(model);
  const bool is_mapped =
      naming.names == Names::gguf || (naming.names == Names::automatic && mapping::is_of_transformers(*model));
  if (request.form == Form::gguf && is_mapped && !is_gguf) return with_names_of_gguf(model, source, naming, request);
  if (naming.is_q8_0)
    return failure(Code::unsupported, "--dtype q8_0 is for a GGUF of a repository of the Hub; nothing was written");
  return model;
}

}  // namespace weightfs::exporting
