#include "formats/darknet/network.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"

namespace weightfs::darknet {
namespace {

constexpr int64_t kMaxSize = 1 << 24;

// The output of a layer.
struct Extent {
  int64_t width = 1, height = 1, channels = 0;

  int64_t count() const { return width * height * channels; }
};

// Layers without arrays whose output has the size of their input.
constexpr auto kUnchanged = std::to_array<std::string_view>({
    "activation",    "contrastive", "cost",    "detection", "dropout", "empty", "gaussian_yolo",
    "Gaussian_yolo", "iseg",        "l2norm",  "logistic",  "logxent", "lrn",   "normalization",
    "region",        "shortcut",    "silence", "softmax",   "soft",    "yolo",
});

bool is_one_of(std::string_view type, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, type) != names.end();
}

class Builder {
 public:
  Builder(bool is_transposed, Charges& charges) : is_transposed_(is_transposed), charges_(charges) {}

  Result<Network> build(const std::vector<Section>& sections) {
    TRY_VOID(begin(sections.front()));
    for (size_t i = 1; i < sections.size() && network_.stopped.empty(); ++i) {
      TRY_VOID(charges_.charge(Cost::step));
      if (auto added = layer(sections[i]); !added)
        return failure(with_message(added.error(), fmt::format("section {}: {}", i - 1, added.error().message)));
      TRY_VOID(charges_.charge(Cost::kept, sizeof(Extent)));
      outputs_.push_back(now_);
    }
    return std::move(network_);
  }

 private:
  // A network of words has only a number of inputs.
  Result<void> begin(const Section& net) {
    const auto inputs = TRY(net.number("inputs", 0));
    const bool is_flat = inputs > 0 && net.text("width").empty();
    now_.width = is_flat ? 1 : TRY(size(net, "width", 1));
    now_.height = is_flat ? 1 : TRY(size(net, "height", 1));
    now_.channels = is_flat ? inputs : TRY(size(net, "channels", 1));
    TRY_VOID(check(now_));
    for (const int64_t each : {now_.channels, now_.height, now_.width})
      network_.input.push_back(static_cast<uint64_t>(each));
    return {};
  }

  static Result<int64_t> size(const Section& section, std::string_view key, int64_t absent) {
    const auto value = TRY(section.number(key, absent));
    if (value > 0 && value <= kMaxSize) return value;
    return failure(Code::corrupt, fmt::format("[{}]: {}={}, a size expected", printable(section.type), key, value));
  }

  static Result<void> check(const Extent& extent) {
    for (const int64_t each : {extent.width, extent.height, extent.channels})
      if (each <= 0 || each > kMaxSize)
        return failure(Code::corrupt,
                       fmt::format("an output of {} x {} x {}", extent.channels, extent.height, extent.width));
    constexpr int64_t kMaxNumbers = int64_t{1} << 40;
    if (extent.width * extent.height > kMaxNumbers / extent.channels)
      return failure(Code::corrupt, "an output of too many numbers");
    return {};
  }

  Result<void> layer(const Section& section) {
    const std::string_view type = section.type;
    is_loaded_ = TRY(section.number("dontload", 0)) == 0;
    if (is_one_of(type, {"convolutional", "conv"})) return convolution(section);
    if (is_one_of(type, {"deconvolutional", "deconv"})) return deconvolution(section);
    if (is_one_of(type, {"connected", "conn"})) return connected(section);
    if (type == "batchnorm") return batch_norm("", now_.channels);
    if (type == "local") return local(section);
    if (is_one_of(type, {"rnn", "gru", "lstm"})) return recurrent(section);
    if (type == "crnn") return convolutional_recurrent(section);
    if (is_one_of(type, {"route", "scale_channels", "sam"})) return route(section);
    if (std::ranges::find(kUnchanged, type) != kUnchanged.end())
      return type == "shortcut" ? shortcut(section) : Result<void>();
    if (is_one_of(type, {"maxpool", "max", "avgpool", "avg", "upsample", "reorg", "reorg3d", "crop"}))
      return resize(section);
    network_.stopped = fmt::format("they are behind the section [{}], which may have weights", printable(type));
    return {};
  }

  // [channels, height, width] of the next layer.
  Result<void> set_output(const Extent& output) {
    TRY_VOID(check(output));
    now_ = output;
    return {};
  }

  Result<void> add(std::string field, std::initializer_list<int64_t> sizes, Array::Order order = Array::Order::c) {
    if (!is_loaded_) return {};
    Array array;
    array.name = fmt::format("{}.{}", outputs_.size(), field);
    for (const int64_t each : sizes) array.shape.push_back(static_cast<uint64_t>(each));
    array.order = order;
    TRY_VOID(charges_.charge(Cost::kept, sizeof(Array) + array.name.size() + 8 * array.shape.size()));
    network_.arrays.push_back(std::move(array));
    return {};
  }

  Result<void> batch_norm(const std::string& prefix, int64_t count) {
    for (const char* const field : {"scales", "rolling_mean", "rolling_variance"})
      TRY_VOID(add(prefix + field, {count}));
    return {};
  }

  // Half the size for `pad`, else `padding`.
  static Result<int64_t> padding(const Section& section, int64_t kernel) {
    const auto stated = TRY(section.number("padding", 0));
    const auto is_half = TRY(section.number("pad", 0));
    if (stated < 0 || stated > kMaxSize) return failure(Code::corrupt, fmt::format("padding={}", stated));
    return is_half != 0 ? kernel / 2 : stated;
  }

  Result<void> convolution(const Section& section) {
    const int64_t filters = TRY(size(section, "filters", 1)), kernel = TRY(size(section, "size", 1));
    const int64_t stride = TRY(size(section, "stride", 1)), groups = TRY(size(section, "groups", 1));
    const int64_t pad = TRY(padding(section, kernel));
    const bool has_norm = TRY(section.number("batch_normalize", 0)) != 0;
    const bool is_flipped = TRY(section.number("flipped", 0)) != 0;
    const bool has_scales = TRY(section.number("dontloadscales", 0)) == 0;
    if (TRY(section.number("antialiasing", 0)) != 0) {
      network_.stopped = "they are behind a layer with antialiasing, which has more weights";
      return {};
    }
    if (groups > now_.channels) return failure(Code::corrupt, fmt::format("{} groups of {}", groups, now_.channels));
    is_loaded_ = is_loaded_ && section.text("share_index").empty();
    TRY_VOID(add("biases", {filters}));
    if (has_norm && has_scales) TRY_VOID(batch_norm("", filters));
    TRY_VOID(add("weights", {filters, now_.channels / groups, kernel, kernel},
                 is_flipped ? Array::Order::exchanged : Array::Order::c));
    return set_output(
        {(now_.width + 2 * pad - kernel) / stride + 1, (now_.height + 2 * pad - kernel) / stride + 1, filters});
  }

  Result<void> deconvolution(const Section& section) {
    const int64_t filters = TRY(size(section, "filters", 1)), kernel = TRY(size(section, "size", 1));
    const int64_t stride = TRY(size(section, "stride", 1)), pad = TRY(padding(section, kernel));
    TRY_VOID(add("biases", {filters}));
    if (TRY(section.number("batch_normalize", 0)) != 0) TRY_VOID(batch_norm("", filters));
    TRY_VOID(add("weights", {filters, now_.channels, kernel, kernel}));
    return set_output(
        {(now_.width - 1) * stride + kernel - 2 * pad, (now_.height - 1) * stride + kernel - 2 * pad, filters});
  }

  Result<void> matrix(const std::string& prefix, int64_t inputs, int64_t outputs, bool has_norm) {
    TRY_VOID(add(prefix + "biases", {outputs}));
    TRY_VOID(add(prefix + "weights", {outputs, inputs}, is_transposed_ ? Array::Order::exchanged : Array::Order::c));
    return has_norm ? batch_norm(prefix, outputs) : Result<void>();
  }

  Result<void> connected(const Section& section) {
    const int64_t outputs = TRY(size(section, "output", 1));
    const bool has_norm = TRY(section.number("batch_normalize", 0)) != 0;
    TRY_VOID(matrix("", now_.count(), outputs, has_norm));
    return set_output({1, 1, outputs});
  }

  // Filters of their own for each place.
  Result<void> local(const Section& section) {
    const int64_t filters = TRY(size(section, "filters", 1)), kernel = TRY(size(section, "size", 1));
    const int64_t stride = TRY(size(section, "stride", 1)), pad = TRY(section.number("pad", 0));
    const int64_t reduced = pad != 0 ? 1 : kernel;
    const Extent output{(now_.width - reduced) / stride + 1, (now_.height - reduced) / stride + 1, filters};
    TRY_VOID(check(output));
    TRY_VOID(add("biases", {output.count()}));
    TRY_VOID(add("weights", {output.width * output.height, filters, now_.channels, kernel, kernel}));
    return set_output(output);
  }

  Result<void> recurrent(const Section& section) {
    const int64_t outputs = TRY(size(section, "output", 1)), inputs = now_.count();
    const bool has_norm = TRY(section.number("batch_normalize", 0)) != 0;
    if (section.type == "rnn") {
      const int64_t hidden = TRY(size(section, "hidden", outputs));
      TRY_VOID(matrix("input_layer.", inputs, hidden, has_norm));
      TRY_VOID(matrix("self_layer.", hidden, hidden, has_norm));
      TRY_VOID(matrix("output_layer.", hidden, outputs, has_norm));
      return set_output({1, 1, outputs});
    }
    const std::string_view gates = section.type == "gru" ? "zrh" : "ifog";
    for (const char gate : gates) TRY_VOID(matrix(fmt::format("w{}.", gate), inputs, outputs, has_norm));
    for (const char gate : gates) TRY_VOID(matrix(fmt::format("u{}.", gate), outputs, outputs, has_norm));
    return set_output({1, 1, outputs});
  }

  Result<void> convolutional_recurrent(const Section& section) {
    const int64_t hidden = TRY(size(section, "hidden_filters", 1)), outputs = TRY(size(section, "output_filters", 1));
    const bool has_norm = TRY(section.number("batch_normalize", 0)) != 0;
    constexpr int64_t kKernel = 3;
    const auto part = [&](const std::string& prefix, int64_t from, int64_t to) -> Result<void> {
      TRY_VOID(add(prefix + "biases", {to}));
      if (has_norm) TRY_VOID(batch_norm(prefix, to));
      return add(prefix + "weights", {to, from, kKernel, kKernel});
    };
    TRY_VOID(part("input_layer.", now_.channels, hidden));
    TRY_VOID(part("self_layer.", hidden, hidden));
    TRY_VOID(part("output_layer.", hidden, outputs));
    return set_output({now_.width, now_.height, outputs});
  }

  // The output of an earlier layer: a negative number counts from here.
  Result<Extent> output_of(std::string_view number) {
    const auto index = parse_number<int64_t>(number);
    const auto layers = static_cast<int64_t>(outputs_.size());
    const int64_t place = !index ? -1 : *index < 0 ? layers + *index : *index;
    if (place < 0 || place >= layers)
      return failure(Code::corrupt, fmt::format("refers to the layer {}, there are {} before", quoted(number), layers));
    return outputs_[static_cast<size_t>(place)];
  }

  Result<void> shortcut(const Section& section) {
    const std::string_view from = section.text("from");
    TRY(output_of(from.substr(0, from.find(','))));
    return {};
  }

  // The channels of several layers.
  Result<void> route(const Section& section) {
    std::string_view layers = section.text(section.type == "route" ? "layers" : "from");
    Extent output = TRY(output_of(layers.substr(0, layers.find(','))));
    output.channels = 0;
    while (!layers.empty()) {
      const size_t end = std::min(layers.find(','), layers.size());
      output.channels += TRY(output_of(layers.substr(0, end))).channels;
      layers.remove_prefix(std::min(end + 1, layers.size()));
      TRY_VOID(check(output));
    }
    output.channels /= TRY(size(section, "groups", 1));
    return set_output(output);
  }

  Result<void> resize(const Section& section) {
    const std::string_view type = section.type;
    const int64_t stride = TRY(size(section, "stride", 1));
    Extent output = now_;
    if (type == "avgpool" || type == "avg") output = {1, 1, now_.channels};
    if (type == "upsample") output = {now_.width * stride, now_.height * stride, now_.channels};
    if (type == "maxpool" || type == "max") {
      const int64_t kernel = TRY(size(section, "size", stride));
      const auto extra = TRY(section.number("padding", kernel - 1));
      if (extra < 0 || extra > kMaxSize) return failure(Code::corrupt, fmt::format("padding={}", extra));
      output = {(now_.width + extra - kernel) / stride + 1, (now_.height + extra - kernel) / stride + 1, now_.channels};
    }
    if (type.starts_with("reorg")) {
      const bool is_reverse = TRY(section.number("reverse", 0)) != 0;
      if (!is_reverse && (now_.width < stride || now_.height < stride))  // its product with the channels may overflow
        return failure(Code::corrupt,
                       fmt::format("stride={} is above the input of {} x {}", stride, now_.height, now_.width));
      output = is_reverse ? Extent{now_.width * stride, now_.height * stride, now_.channels / (stride * stride)}
                          : Extent{now_.width / stride, now_.height / stride, now_.channels * stride * stride};
    }
    if (type == "crop") {
      output.width = TRY(size(section, "crop_width", 1));
      output.height = TRY(size(section, "crop_height", 1));
    }
    return set_output(output);
  }

  bool is_transposed_;
  Charges& charges_;
  Network network_;
  Extent now_;                   // the input of the next layer
  std::vector<Extent> outputs_;  // of all layers so far
  bool is_loaded_ = true;        // the file has the arrays of the layer
};

}  // namespace

Result<Network> lay_out(const std::vector<Section>& sections, bool is_transposed, Charges& charges) {
  return Builder(is_transposed, charges).build(sections);
}

}  // namespace weightfs::darknet
