// Builds OpenVINO's .xml files for tests, right or wrong.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

#include "tests/builders/params_builder.h"

namespace weightfs::test::openvino {

/// A layer with this content, and these further attributes.
inline std::string layer(std::string_view id, std::string_view name, std::string_view type,
                         std::string_view content = "", std::string_view attributes = R"(version="opset1")") {
  return fmt::format(R"(<layer id="{}" name="{}" type="{}" {}>{}</layer>)", id, name, type, attributes, content);
}

inline std::string constant(std::string_view name, std::string_view type, std::string_view shape,
                            std::string_view offset, std::string_view size) {
  return layer("9", name, "Const",
               fmt::format(R"(<data element_type="{}" shape="{}" offset="{}" size="{}"/>)", type, shape, offset, size));
}

/// `rest`: behind the layers.
inline std::string net(std::string_view layers, std::string_view rest = "", std::string_view version = "11") {
  return fmt::format(R"(<?xml version="1.0"?><net name="small" version="{}"><layers>{}</layers>{}</net>)", version,
                     layers, rest);
}

/// Two texts, as a string constant has them: "a" and "bc".
inline std::string two_texts() { return little(2, 4) + little(0, 4) + little(1, 4) + little(3, 4) + "abc"; }

/// Constants of three types, one in a body, texts, an input and an output, and metadata.
inline std::string small_openvino() {
  const std::string body = fmt::format("<body><layers>{}</layers></body>", constant("inner", "u8", "2", "8", "2"));
  const std::string input =
      R"(<data element_type="f32" shape="?,3"/><output><port id="0" precision="FP32" names="x,x:0">)"
      R"(<dim>-1</dim><dim>3</dim></port></output>)";
  const std::string relu =
      R"(<output><port id="1" precision="FP32" names="y"><dim>-1</dim><dim>3</dim></port></output>)";
  const std::string result = R"(<input><port id="0"><dim>-1</dim><dim>3</dim></port></input>)";
  return net(
      layer("0", "x", "Parameter", input) + constant("a/w", "f32", "2", "0", "8") +
          layer("2", "loop", "TensorIterator", body) + constant("four", "i4", "3", "10", "2") +
          constant("text", "string", "2", "12", "19") + layer("3", "relu", "ReLU", relu) +
          layer("4", "y/sink", "Result", result),
      R"(<edges><edge from-layer="3" from-port="1" to-layer="4" to-port="0"/></edges>)"
      R"(<rt_info><Runtime_version value="2025.1"/><model_info><labels value="cat dog"/></model_info></rt_info>)");
}

inline std::string small_openvino_weights() { return "01234567ab\x21\x03" + two_texts(); }

}  // namespace weightfs::test::openvino
