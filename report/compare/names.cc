#include "report/compare/names.h"

#include <fmt/core.h>

#include "formats/mapping/mapping.h"
#include "report/text/words.h"

namespace weightfs::compare {

std::optional<MappedNames> mapped_names(const ModelPtr& a, const ModelPtr& b) {
  const bool is_a_gguf = a->gguf_keys != nullptr;
  if (is_a_gguf == (b->gguf_keys != nullptr)) return std::nullopt;
  const ModelPtr& gguf = is_a_gguf ? a : b;
  const ModelPtr& repository = is_a_gguf ? b : a;
  if (!mapping::is_of_transformers(*repository)) return std::nullopt;
  const auto made = mapping::with_gguf_names(repository);
  if (!made || made->architecture != text_in(gguf->metadata, "general.architecture")) return std::nullopt;
  if (made->unplaced == made->model->tensors.size()) return std::nullopt;
  return MappedNames{is_a_gguf ? Side::b : Side::a, made->model, made->unplaced + made->dropped};
}

std::string mapped_names_sentence(const MappedNames& names, const std::string& repository) {
  const std::string others =
      names.unmapped == 0
          ? ""
          : fmt::format("; {} no place in a GGUF",
                        names.unmapped == 1 ? "1 tensor has" : counted(names.unmapped, "tensor", "tensors") + " have");
  return fmt::format("{}: tensors are compared by their names and values in a GGUF{}", repository, others);
}

}  // namespace weightfs::compare
