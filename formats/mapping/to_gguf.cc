#include <fmt/core.h>

#include <algorithm>

#include "base/text.h"
#include "formats/completeness.h"
#include "formats/format.h"
#include "formats/gguf_keys.h"
#include "formats/mapping/agreement.h"
#include "formats/mapping/config/rope.h"
#include "formats/mapping/mapping.h"
#include "formats/mapping/model_keys.h"
#include "formats/mapping/operations/rearranged.h"
#include "formats/mapping/plan.h"
#include "formats/mapping/tokenizer.h"

namespace weightfs::mapping {
namespace {

constexpr uint64_t kGgufAlignment = 32;

// The smallest size of a block of q8_0: rows that are no whole blocks are float16.
constexpr uint64_t kQ8Row = 32;

Sizes sizes_of(Repository& repository) {
  const summary::Fields config = repository.config();
  const auto number = [&](summary::Names names) { return config.number(names).value_or(0); };
  Sizes sizes;
  sizes.heads = number({"num_attention_heads", "n_head", "n_heads"});
  sizes.key_heads = config.number({"num_key_value_heads", "n_kv_heads"}).value_or(sizes.heads);
  sizes.mla_keys = number({"qk_nope_head_dim"});
  sizes.mla_values = number({"v_head_dim"});
  sizes.linear_key_heads = number({"linear_num_key_heads"});
  sizes.linear_value_heads = number({"linear_num_value_heads"});
  sizes.linear_key_size = number({"linear_key_head_dim"});
  sizes.linear_value_size = number({"linear_value_head_dim"});
  return sizes;
}

// Tensors that llama.cpp expects as float32 (conversion/base.py, prepare_tensors).
bool is_float32(std::string_view name, size_t dimensions) {
  if (dimensions <= 1 || name.ends_with("_norm.weight") || !name.ends_with(".weight")) return true;
  for (const std::string_view end :
       {".ffn_gate_inp.weight", ".ffn_gate_inp_shexp.weight", ".ssm_conv1d.weight", ".shortconv.conv.weight"})
    if (name.ends_with(end)) return true;
  return name == "position_embd.weight" || name == "token_types.weight";
}

Arithmetic arithmetic_of(Op op, std::string_view name, const Architecture& architecture) {
  if (op == Op::value_decays) return Arithmetic::decay;
  const bool is_norm = op == Op::norm && architecture.adds_one_to_norms && name.ends_with(".weight");
  return is_norm ? Arithmetic::plus_one : Arithmetic::none;
}

// The type of all matrices: of the first matrix of the repository that has 16 bits.
GgufType type_of_matrices(const Model& model, const std::vector<Planned>& all, GgufType type) {
  if (type != GgufType::stored) return type;
  for (const Planned& planned : all) {
    const TensorView tensor = model.tensors[planned.tensors.front()];
    if (tensor.shape.size() < 2) continue;
    if (tensor.dtype->name == "bfloat16") return GgufType::bfloat16;
    if (tensor.dtype->name == "float16") return GgufType::float16;
  }
  return GgufType::float16;
}

// llama_ftype (llama.h).
uint32_t file_type(GgufType type, bool has_mxfp4) {
  constexpr uint32_t kFloat32 = 0, kFloat16 = 1, kQ8_0 = 7, kBfloat16 = 32, kMxfp4Moe = 38;
  if (type == GgufType::q8_0) return kQ8_0;
  if (has_mxfp4) return kMxfp4Moe;
  if (type == GgufType::float32) return kFloat32;
  return type == GgufType::bfloat16 ? kBfloat16 : kFloat16;
}

bool is_integer(const DType& dtype) {
  return dtype.name.starts_with("int") || dtype.name.starts_with("uint") || dtype.name == "bool";
}

// Makes the tensors of the GGUF.
class Maker {
 public:
  Maker(Repository& repository, GgufType type) : repository_(repository), type_(type), sizes_(sizes_of(repository)) {}

  Result<Tensor> make(const Planned& planned) const {
    Tensor made = TRY(rearranged(planned));
    made.name = planned.name;
    made.scope = {};
    if (made.dtype->name == "mxfp4") return made;
    if (is_integer(*made.dtype))
      return failure(Code::unsupported, fmt::format("tensor {} has integers ({}), which mean nothing without a scale",
                                                    quoted(at(planned.tensors.front()).name), made.dtype->name));
    const Arithmetic arithmetic = arithmetic_of(planned.op, planned.name, repository_.architecture());
    const GgufType type = type_of(made);  // before it is moved: compilers differ in the order of arguments
    return with_numbers(std::move(made), arithmetic, type);
  }

 private:
  GgufType type_of(const Tensor& tensor) const {
    if (is_float32(tensor.name, tensor.shape.size())) return GgufType::float32;
    return type_ == GgufType::q8_0 && tensor.shape.back() % kQ8Row != 0 ? GgufType::float16 : type_;
  }

  TensorView at(uint32_t index) const { return repository_.model().tensors[index]; }

  Result<Tensor> rearranged(const Planned& planned) const {
    switch (planned.op) {
      case Op::expert: {
        std::vector<TensorView> experts;
        for (const uint32_t index : planned.tensors) experts.push_back(at(index));
        return stacked(experts);
      }
      case Op::mxfp4:
        return mxfp4_of(at(planned.tensors[0]), at(planned.tensors[1]), 0, 1);
      case Op::mxfp4_even:
        return mxfp4_of(at(planned.tensors[0]), at(planned.tensors[1]), 0, 2);
      case Op::mxfp4_odd:
        return mxfp4_of(at(planned.tensors[0]), at(planned.tensors[1]), 1, 2);
      default:
        return mapping::rearranged(at(planned.tensors.front()), planned.op, repository_.architecture(), sizes_);
    }
  }

  Repository& repository_;
  GgufType type_;
  Sizes sizes_;
};

// gemma3 and gemma4 without tokenizer.model: embeddings have rows behind the last token.
Result<void> cut_rows(Tensor& tensor, uint64_t rows) {
  if (tensor.shape.size() != 2 || tensor.shape[0] <= rows) return {};
  const uint64_t bytes = tensor.nbytes() / tensor.shape[0];
  tensor.source = TRY(slice(std::make_shared<Slice>(tensor.source), 0, rows * bytes));
  tensor.shape[0] = rows;
  return {};
}

// A model that is made of a repository.
struct Mapped {
  explicit Mapped(const Repository& repository) : from(repository.model_pointer()) {
    model.format = "gguf";
    model.version = "3";
    model.budget = from->budget;
    if (model.budget != nullptr) charges.emplace(*model.budget);
  }

  Result<void> charge(Cost cost, uint64_t count) { return charges ? charges->charge(cost, count) : Result<void>(); }

  ModelPtr from;  // has texts that tensors refer to
  Model model;
  std::optional<Charges> charges;  // released with the model
};
using MappedPtr = std::shared_ptr<Mapped>;

Result<MappedPtr> tensors_of(Repository& repository, Plan& all, GgufType type, Unplaced unplaced) {
  constexpr uint64_t kMade = 1024;  // bytes of a tensor's sources
  auto mapped = std::make_shared<Mapped>(repository);
  const Maker maker(repository, type);
  for (const Planned& planned : all.tensors) {
    TRY_VOID(mapped->charge(Cost::kept, kMade + planned.tensors.size() * sizeof(SourcePtr) * 8));
    auto made = maker.make(planned);
    if (!made && (unplaced == Unplaced::refused || made.error().code != Code::unsupported))
      return tl::unexpected(std::move(made).error());
    if (made) {
      mapped->model.tensors.push_back(*made);
      continue;
    }
    for (const uint32_t index : planned.tensors) mapped->model.tensors.push_back(repository.model().tensors[index]);
    all.unplaced += planned.tensors.size();
  }
  return mapped;
}

Result<void> cut_embeddings(Repository& repository, Model& model) {
  const auto rows = TRY(rows_of_embeddings(repository));
  if (!rows) return {};
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const std::string_view name = model.tensors.name(i);
    if (name != "token_embd.weight" && name != "per_layer_token_embd.weight") continue;
    Tensor tensor = copy_of(model.tensors[i]);
    TRY_VOID(cut_rows(tensor, *rows));
    model.tensors.replace(i, tensor);
  }
  return {};
}

Result<void> check_quantisation(Repository& repository) {
  const auto quantisation = repository.config().object({"quantization_config"});
  if (!quantisation) return {};
  const std::string method = quantisation.text({"quant_method"});
  if (method == "mxfp4" && repository.architecture().id == Arch::gpt_oss) return {};
  if (method == "fp8" && &repository.model() != &repository.stored()) return {};
  return failure(Code::unsupported, fmt::format("the tensors are quantised by {} (quantization_config); GGUF has no "
                                                "such type",
                                                method.empty() ? "another program" : printable(method)));
}

// The tensors that are computed of config.json come first.
Result<void> add_generated(Repository& repository, Model& model) {
  TensorList tensors;
  for (auto& [generated, numbers] : TRY(generated_tensors(repository)))
    tensors.push_back(float32_tensor(generated, numbers));
  tensors.append(model.tensors);
  model.tensors = std::move(tensors);
  return {};
}

Result<GgufKeys::Entries> entries_of(const Keys& keys) {
  std::string bytes = keys.bytes();
  const uint64_t size = bytes.size();
  return GgufKeys::Entries{TRY(slice(in_memory(std::move(bytes)), 0, size)), keys.count(), false};
}

// The keys before the tokenizer.
Result<Keys> keys_of(Repository& repository, const Plan& all, const Model& made, GgufType matrices) {
  Keys keys;
  const bool has_mxfp4 = !all.tensors.empty() && all.tensors.front().op == Op::mxfp4;
  ParameterCount parameters;
  for (size_t i = 0; i < made.tensors.size(); ++i) parameters.add(made.tensors.name(i), made.tensors.shape(i));
  add_general(repository, parameters, keys);
  TRY_VOID(add_hyperparameters(repository, file_type(matrices, has_mxfp4), keys));
  return keys;
}

}  // namespace

bool is_of_transformers(const Model& model) {
  const Traits& traits = traits_of(model.format);
  if (model.beside == nullptr || traits.content != Traits::tensors || traits.has_gguf_keys) return false;
  summary::SmallFiles files(model);
  const Map* const config = files.object("config.json");
  return config != nullptr && config->find_as<List>("architectures") != nullptr;
}

std::string repository_name(const Model& model, std::string_view source) {
  std::string_view name = model.chosen->repository;
  if (name.empty()) {
    name = source.substr(0, source.find('?'));
    if (name.find("://") != name.npos) name = name.substr(0, name.find('@'));
    while (name.ends_with('/')) name.remove_suffix(1);
    const std::string_view file = name.substr(name.rfind('/') + 1);
    const bool is_file = !model.parts.empty() && model.parts.front().path == file;
    if (is_file) name.remove_suffix(std::min(name.size(), file.size() + 1));
  }
  return std::string(name.substr(name.rfind('/') + 1));
}

Result<std::vector<ModelPtr>> as_gguf(const ModelPtr& model, const std::string& name, std::span<const GgufType> types) {
  const auto repository = TRY(Repository::open(model, name));
  TRY_VOID(check_quantisation(*repository));
  if (const Completeness found = completeness_of(*model); !found.is_complete())
    return failure(Code::unsupported, printable(to_sentence(found)));
  Plan all = TRY(plan(*repository, Unplaced::refused));
  Keys tokenizer;
  TRY_VOID(add_tokenizer(*repository, tokenizer));
  const GgufKeys::Entries tokens = TRY(entries_of(tokenizer));
  std::vector<ModelPtr> models;
  for (const GgufType type : types) {
    const GgufType matrices = type_of_matrices(repository->model(), all.tensors, type);
    const MappedPtr made = TRY(tensors_of(*repository, all, matrices, Unplaced::refused));
    TRY_VOID(made->charge(Cost::kept, tokens.bytes.size()));
    TRY_VOID(cut_embeddings(*repository, made->model));
    TRY_VOID(add_generated(*repository, made->model));
    const Keys keys = TRY(keys_of(*repository, all, made->model, matrices));
    TRY_VOID(check_agreement(*repository, made->model.tensors));
    auto gguf_keys = std::make_shared<GgufKeys>();
    gguf_keys->entries = {TRY(entries_of(keys)), tokens};
    gguf_keys->alignment = kGgufAlignment;
    made->model.gguf_keys = std::move(gguf_keys);
    models.emplace_back(made, &made->model);
  }
  return models;
}

Result<ModelPtr> as_gguf(const ModelPtr& model, const std::string& name, GgufType type) {
  return std::move(TRY(as_gguf(model, name, std::span(&type, 1))).front());
}

Result<WithGgufNames> with_gguf_names(const ModelPtr& model) {
  const auto repository = TRY(Repository::open(model, ""));
  Plan all = TRY(plan(*repository, Unplaced::kept));
  const MappedPtr mapped = TRY(tensors_of(*repository, all, GgufType::stored, Unplaced::kept));
  Model& made = mapped->model;
  if (const auto cut = cut_embeddings(*repository, made); !cut && cut.error().code != Code::unsupported)
    return tl::unexpected(cut.error());
  if (const auto generated = generated_tensors(*repository))
    for (const auto& [name, numbers] : *generated) made.tensors.push_back(float32_tensor(name, numbers));
  made.format = model->format;
  made.lacks.edit() = *model->lacks;
  made.warnings = model->warnings;
  return WithGgufNames{ModelPtr(mapped, &made), repository->architecture().name, all.unplaced, all.dropped};
}

}  // namespace weightfs::mapping
