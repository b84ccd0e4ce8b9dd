#include "report/info/memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "formats/completeness.h"
#include "report/text/map_of.h"

namespace weightfs::info {
namespace {

using summary::MemoryFit;
using summary::MemoryModel;
using summary::MemoryPart;

constexpr uint64_t kForTheDriver = uint64_t{512} << 20;

Map part_map(const MemoryPart& part) {
  return map_of(
      {{"weights", part.weights}, {"kv_cache", part.cache}, {"compute", part.compute}, {"total", part.total()}});
}

// Whether the bytes of the weights are those of the whole model.
bool has_weights(const Subject& subject) { return subject.summary.weight_bytes > 0 && has_all_tensors(subject.model); }

// Why nothing is known of the memory of a model that lacks tensors; empty if it lacks none.
std::string what_is_missing(const Subject& subject) {
  if (has_all_tensors(subject.model)) return "";
  const Completeness completeness = completeness_of(subject.model);
  if (completeness.unreadable == 0) return "a part of the model cannot be read";
  return fmt::format("{} of {} tensors cannot be read", grouped(completeness.unreadable),
                     grouped(completeness.tensors));
}

Result<MemoryAnswer> answer_for(const Subject& subject, const MemoryQuestion& question) {
  const std::string missing = what_is_missing(subject);
  if (!missing.empty() && summary::generates_text(subject.summary)) return failure(Code::unsupported, missing);
  const MemoryModel model = TRY(MemoryModel::of(subject.model, subject.summary, subject.counted));
  return answer_of(model, question);
}

std::string layers_text(uint64_t count, uint64_t all) {
  return count == all ? fmt::format("all {} layers", grouped(all))
                      : fmt::format("{} of {} layers", grouped(count), grouped(all));
}

// "; all 131,072 tokens of its context fit", "; all layers fit with up to 4,096 tokens"
std::string context_text(const MemoryAnswer& answer) {
  const auto largest = answer.fit.largest_context;
  if (!largest || !answer.context) return "";
  if (*largest >= *answer.context)
    return answer.choice.context >= *largest
               ? ""
               : fmt::format("; all {} tokens of its context fit, too", grouped(*largest));
  return fmt::format("; all layers fit with up to {} tokens", grouped(*largest));
}

std::string left_text(const MemoryAnswer& answer) {
  const uint64_t left = *answer.gpu_bytes - answer.use.gpu.total();
  return fmt::format("{} left{}", bytes_text(left), left < kForTheDriver ? ", which its driver may need" : "");
}

// Rows of a label and the bytes on the GPU and on the host.
std::vector<std::string> memory_table(const MemoryAnswer& answer, const Style& style) {
  const MemoryPart& gpu = answer.use.gpu;
  const MemoryPart& host = answer.use.host;
  const size_t label = style.is_narrow() ? 12 : 18;
  const size_t cell = style.is_narrow() ? 12 : 14;
  const auto line = [&](std::string_view name, std::string_view first, std::string_view second) {
    return std::string(kIndent, ' ') + left(name, label) + right(first, cell) + right(second, cell);
  };
  const auto exact = [](uint64_t bytes) { return bytes == 0 ? "-" : bytes_text(bytes); };
  const auto about = [](uint64_t bytes) { return bytes == 0 ? "-" : "~" + bytes_text(bytes); };
  return {painted(line("", "GPU", "host"), Paint::dim), line("weights", exact(gpu.weights), exact(host.weights)),
          line("KV cache", exact(gpu.cache), exact(host.cache)),
          line(style.is_narrow() ? "buffers" : "compute buffers", about(gpu.compute), about(host.compute)),
          line("total", about(gpu.total()), about(host.total()))};
}

void add_wrapped(std::vector<std::string>& out, const std::string& text, const Style& style, bool is_warning) {
  for (const std::string& line : wrapped(text, style.width, style))
    out.push_back(is_warning ? painted(line, Paint::yellow) : line);
}

}  // namespace

Result<MemoryAnswer> answer_of(const MemoryModel& model, const MemoryQuestion& question) {
  MemoryAnswer out;
  out.context = model.context();
  const uint64_t usual = std::min(summary::kUsualTokens, out.context.value_or(summary::kUsualTokens));
  const uint64_t tokens = std::max<uint64_t>(question.context.value_or(usual), 1);
  const auto types = summary::kv_types();
  const auto type = std::ranges::find(types, question.kv_type);
  if (type == types.end())
    return failure(Code::unsupported, quoted(question.kv_type) + " is not a type of keys and values");
  out.choice = {tokens, *type, question.batch};
  out.layers = model.layers();
  out.gpu_bytes = question.gpu_bytes;
  if (question.gpu_bytes) out.fit = TRY(model.fit(out.choice, *question.gpu_bytes));
  // The smallest need is shown if not one layer fits.
  out.gpu_layers = question.gpu_bytes ? std::max<uint64_t>(out.fit.layers, 1) : out.layers;
  if (question.gpu_layers) out.gpu_layers = std::min(*question.gpu_layers, out.layers);
  out.use = TRY(model.use(out.choice, out.gpu_layers));
  if (out.context && tokens > *out.context)
    out.warnings.push_back(fmt::format("{} tokens are more than the {} that the model was made for", grouped(tokens),
                                       grouped(*out.context)));
  return out;
}

std::string sentence_of(const MemoryAnswer& answer) {
  const uint64_t needed = answer.use.gpu.total();
  const std::string host = bytes_text(answer.use.host.total());
  if (answer.gpu_layers == 0) return fmt::format("needs {} of the host, and no GPU", host);
  const std::string layers = layers_text(answer.gpu_layers, answer.layers);
  if (!answer.gpu_bytes)
    return fmt::format("needs {} of a GPU for {}, and {} of the host", bytes_text(needed), layers, host);
  const std::string size = bytes_text(*answer.gpu_bytes);
  if (!answer.fits() && answer.fit.layers == 0)
    return fmt::format("does not fit in {}: one layer and the buffers need {}", size, bytes_text(needed));
  if (!answer.fits())
    return fmt::format("does not fit in {}: {} need {}; {} fit", size, layers, bytes_text(needed),
                       layers_text(answer.fit.layers, answer.layers));
  if (answer.gpu_layers == answer.layers)
    return fmt::format("fits in {}: {}, {}{}", size, layers, left_text(answer), context_text(answer));
  return fmt::format("fits in {} with {}, {}; the host needs {}{}", size, layers, left_text(answer), host,
                     context_text(answer));
}

Map memory_map(const Subject& subject, const MemoryQuestion& question) {
  const auto answer = answer_for(subject, question);
  if (!answer) {
    Map out;
    if (has_weights(subject)) out.append("weights", subject.summary.weight_bytes);
    out.append("reason", answer.error().message);
    out.append("language_model", summary::generates_text(subject.summary));
    return out;
  }
  Map out = map_of({{"context", answer->choice.context},
                    {"kv_type", std::string(answer->choice.kv_type)},
                    {"batch", answer->choice.batch},
                    {"layers", answer->layers},
                    {"gpu_layers", answer->gpu_layers},
                    {"gpu", part_map(answer->use.gpu)},
                    {"host", part_map(answer->use.host)}});
  if (answer->context) out.append("model_context", *answer->context);
  if (answer->gpu_bytes) {
    Map fit = map_of({{"gpu_bytes", *answer->gpu_bytes}, {"fits", answer->fits()}, {"layers", answer->fit.layers}});
    if (answer->fits()) fit.append("bytes_left", *answer->gpu_bytes - answer->use.gpu.total());
    if (answer->fit.largest_context) fit.append("largest_context", *answer->fit.largest_context);
    out.append("fit", std::move(fit));
  }
  out.append("sentence", sentence_of(*answer));
  if (!answer->warnings.empty()) out.append("warnings", List(answer->warnings.begin(), answer->warnings.end()));
  return out;
}

std::vector<std::string> memory_lines(const Subject& subject, const MemoryQuestion& question, const Style& style) {
  std::vector<std::string> out;
  const auto answer = answer_for(subject, question);
  if (!answer) {
    const std::string known = has_weights(subject)
                                  ? fmt::format("weights of {}; the rest is ", bytes_text(subject.summary.weight_bytes))
                                  : "";
    add_wrapped(out, clean(fmt::format("memory: {}not known: {}", known, answer.error().message), style), style, true);
    return out;
  }
  add_wrapped(out,
              fmt::format("memory for {} tokens, KV cache in {}, batch of {}, {} on the GPU",
                          grouped(answer->choice.context), answer->choice.kv_type, grouped(answer->choice.batch),
                          layers_text(answer->gpu_layers, answer->layers)),
              style, false);
  for (std::string& line : memory_table(*answer, style)) out.push_back(std::move(line));
  add_wrapped(out, sentence_of(*answer), style, false);
  for (const std::string& warning : answer->warnings) add_wrapped(out, "warning: " + warning, style, true);
  return out;
}

}  // namespace weightfs::info
