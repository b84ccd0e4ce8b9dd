// Kinds of operators, for the colour of their stripe. The name of the operator says the same in words.

const kKinds = [
  ["weights", /conv|matmul|gemm|linear|fully_?connected|einsum|lstm|gru|rnn|embedding|attention|(^|::)(mm|bmm|addmm)\b/i],
  ["norm", /norm|pool|reduce|mean|lrn|dropout/i],
  ["activation", /relu|sigmoid|tanh|gelu|elu|silu|swish|softmax|softplus|erf|logistic|activation|clip/i],
  ["quantisation", /quant|cast/i],
  ["shape", /reshape|transpose|squeeze|flatten|expand|permute|view|shape|resize|identity|clone/i],
  ["shape", /concat|split|slice|gather|scatter|pad|tile|stack/i],
];

// "weights", "norm", "activation", "quantisation", "shape", or "other".
export function kindOf(operator) {
  const text = operator.slice(0, 100);
  return kKinds.find(([, pattern]) => pattern.test(text))?.[0] ?? "other";
}
