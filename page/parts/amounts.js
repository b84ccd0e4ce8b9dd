// How much of tensors is read without a question.

// More bytes than this are read only when a person asks for it.
export const kMostUnasked = 256 * 1024 * 1024;

// Tensors of at most so many elements are read completely at once, which also makes their quantiles exact.
export const kSmallTensor = 1 << 20;

// The rows that a sample of a tensor has.
export const kSampledRows = 64;
