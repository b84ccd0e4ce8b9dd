#include "report/compare/names.h"

#include <fmt/core.h>

#include "base/text.h"
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

Result<NameMapping> mapped_names(const ModelPtr& a, const ModelPtr& b) {
  const bool is_a_gguf = a->gguf_keys != nullptr;
  if (is_a_gguf == (b->gguf_keys != nullptr)) return NameMapping();
  const ModelPtr& gguf = is_a_gguf ? a : b;
  const ModelPtr& repository = is_a_gguf ? b : a;
  const auto made = gguf_tensors(repository);
  if (!made && made.error().code != Code::unsupported) return failure(made.error());
  if (!made) return NameMapping{.why_not = mapping::is_of_transformers(*repository) ? made.error().message : ""};
  const std::string architecture(text_in(gguf->metadata, "general.architecture"));
  if (made->architecture != architecture)
    return NameMapping{.why_not =
                           fmt::format("the repository would be a GGUF of {}, and the architecture of the GGUF is {}",
                                       quoted(made->architecture), quoted(architecture))};
  if (made->unplaced == made->model->tensors.size())
    return NameMapping{.why_not = "no tensor of the repository has a place in a GGUF"};
  return NameMapping{.mapped = MappedNames{is_a_gguf ? Side::b : Side::a, made->model, made->unplaced + made->dropped}};
}

std::string names_sentence(const NameMapping& names, const std::string& a, const std::string& b) {
  if (!names.why_not.empty())
    return fmt::format("{} and {}: tensors are compared by the names that both store: {}", a, b, names.why_not);
  if (!names.mapped) return "";
  const size_t unmapped = names.mapped->unmapped;
  const std::string others =
      unmapped == 0 ? ""
                    : fmt::format("; {} no place in a GGUF",
                                  unmapped == 1 ? "1 tensor has" : counted(unmapped, "tensor", "tensors") + " have");
  return fmt::format("{}: tensors are compared by their names and values in a GGUF{}",
                     names.mapped->side == Side::a ? a : b, others);
}

}  // namespace weightfs::compare
