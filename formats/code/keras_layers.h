// The layers of Keras by their classes: of Keras 1 to 3 and of TensorFlow 2. A layer of another class needs code that
// the model does not have.
#pragma once

#include <string>
#include <string_view>

namespace weightfs::code {

/// With a space before and behind each.
inline constexpr std::string_view kLayersOfKeras =
    " AbstractRNNCell Activation ActivityRegularization Add AdditiveAttention AlphaDropout Argmax Attention "
    "AtrousConvolution1D AtrousConvolution2D AugMix AutoContrast Average AveragePooling1D AveragePooling2D "
    "AveragePooling3D BaseRandomLayer BatchNormalization BatchNormalizationV1 BatchNormalizationV2 BatchNorm "
    "Bidirectional "
    "CategoryCrossing CategoryEncoding CenterCrop Concatenate Conv1D Conv1DTranspose Conv2D Conv2DTranspose Conv3D "
    "Conv3DTranspose ConvLSTM1D ConvLSTM2D ConvLSTM2DCell ConvLSTM3D Convolution1D Convolution1DTranspose "
    "Convolution2D Convolution2DTranspose Convolution3D Convolution3DTranspose Cropping1D Cropping2D Cropping3D "
    "CuDNNGRU CuDNNLSTM CutMix Deconvolution2D Deconvolution3D Dense DenseFeatures DepthwiseConv1D DepthwiseConv2D "
    "Discretization Dot Dropout ELU EinsumDense Embedding Equalization FeatureSpace Flatten Functional GELU GRU "
    "GRUCell "
    "GRUCellV2 GRUV2 GaussianDropout GaussianNoise GlobalAveragePooling1D GlobalAveragePooling2D "
    "GlobalAveragePooling3D GlobalAvgPool1D GlobalAvgPool2D GlobalAvgPool3D GlobalMaxPool1D GlobalMaxPool2D "
    "GlobalMaxPool3D GlobalMaxPooling1D GlobalMaxPooling2D GlobalMaxPooling3D Grayscale GroupNormalization "
    "GroupQueryAttention GroupedQueryAttention HashedCrossing Hashing Highway Identity InputLayer InputSpec "
    "IntegerLookup LSTM LSTMCell LSTMCellV2 LSTMV2 Lambda LayerNormalization LeakyReLU LocallyConnected1D "
    "LocallyConnected2D Masking MaxNumBoundingBoxes MaxPool1D MaxPool2D MaxPool3D MaxPooling1D MaxPooling2D "
    "MaxPooling3D Maximum MaxoutDense MelSpectrogram Merge Minimum MixUp Model Multiply MultiHeadAttention "
    "Normalization PReLU Permute Pipeline Pooling RMSNormalization RNN RandAugment RandomBrightness "
    "RandomColorDegeneration "
    "RandomColorJitter RandomContrast RandomCrop RandomElasticTransform RandomErasing RandomFlip RandomFourierFeatures "
    "RandomGaussianBlur RandomGrayscale RandomHeight RandomHue RandomInvert RandomPerspective RandomPosterization "
    "RandomRotation RandomSaturation RandomSharpness RandomShear RandomTranslation RandomWidth RandomZoom ReLU "
    "RepeatVector Rescaling Reshape ReversibleEmbedding Resizing STFTSpectrogram SeparableConv1D SeparableConv2D "
    "SeparableConvolution1D SeparableConvolution2D Sequential SimpleRNN SimpleRNNCell SlicingOpLambda Softmax "
    "Solarization "
    "SpatialDropout1D SpatialDropout2D SpatialDropout3D SpectralNormalization StackedRNNCells StringLookup Subtract "
    "SyncBatchNormalization TFOpLambda TensorFlowOpLayer TextVectorization ThresholdedReLU TimeDistributed "
    "TimeDistributedDense UnitNormalization UpSampling1D UpSampling2D UpSampling3D Wrapper ZeroPadding1D ZeroPadding2D "
    "ZeroPadding3D ";

/// Losses, metrics and activations of Keras, which Keras 2 writes as functions without a module.
inline constexpr std::string_view kFunctionsOfKeras =
    " relu elu selu gelu sigmoid hard_sigmoid tanh softmax softplus softsign swish silu linear exponential mish "
    "log_softmax leaky_relu relu6 hard_silu mean_squared_error mean_absolute_error mean_absolute_percentage_error "
    "mean_squared_logarithmic_error squared_hinge hinge categorical_hinge logcosh log_cosh huber huber_loss "
    "categorical_crossentropy sparse_categorical_crossentropy binary_crossentropy binary_focal_crossentropy "
    "categorical_focal_crossentropy kl_divergence kullback_leibler_divergence poisson cosine_similarity "
    "cosine_proximity "
    "mse mae mape msle kld binary_accuracy categorical_accuracy sparse_categorical_accuracy accuracy "
    "top_k_categorical_accuracy sparse_top_k_categorical_accuracy ctc ";

/// Whether a name is one of those in a list above.
inline bool is_of_keras(std::string_view name, std::string_view list) {
  const std::string word = " " + std::string(name) + " ";
  return name.find(' ') == name.npos && list.find(word) != list.npos;
}

}  // namespace weightfs::code
