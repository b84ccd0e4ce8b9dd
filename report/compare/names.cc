#include "report/compare/names.h"

#include <fmt/core.h>

#include "formats/computed_weights.h"
#include "report/text/words.h"

namespace weightfs::compare {

Result<mapping::WithGgufNames> gguf_tensors(const ModelPtr& repository) {
  if (!mapping::is_of_transformers(*repository))
    return failure(Code::unsupported,
                   "the tensors of this model have no names in a GGUF: it is not a repository of the Hub");
  if (!may_have_computed_weights(*repository)) return mapping::with_gguf_names(repository);
  const ComputedWeights computed = TRY(computed_weights(*repository));
  return mapping::with_gguf_names(TRY(with_computed(repository, computed.weights, Pieces::left_out)));
}

Result<std::optional<MappedNames>> mapped_names(const ModelPtr& a, const ModelPtr& b) {
  const bool is_a_gguf = a->gguf_keys != nullptr;
  if (is_a_gguf == (b->gguf_keys != nullptr)) return std::optional<MappedNames>();
  const ModelPtr& gguf = is_a_gguf ? a : b;
  const auto made = gguf_tensors(is_a_gguf ? b : a);
  if (!made && made.error().code != Code::unsupported) return failure(made.error());
  if (!made || made->architecture != text_in(gguf->metadata, "general.architecture"))
    return std::optional<MappedNames>();
  if (made->unplaced == made->model->tensors.size()) return std::optional<MappedNames>();
  return std::optional(MappedNames{is_a_gguf ? Side::b : Side::a, made->model, made->unplaced + made->dropped});
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
