# The Debian package: `cpack -G DEB` in the build directory, or scripts/package, which also configures and builds.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weightfs)
set(CPACK_PACKAGE_CONTACT "${WEIGHTFS_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "mount machine-learning model files as directories")
set(CPACK_PACKAGE_DESCRIPTION
"Mounts a model container as a read-only directory: every tensor is a file,
also in NumPy format, and the metadata is JSON and TOML.
.
It reads GGUF, safetensors, PyTorch, DCP, pickles and joblib, NeMo, ONNX,
Core ML, TensorFlow, TensorFlow.js, HDF5, Keras, NumPy, Flax, TFLite,
ExecuTorch, OpenVINO, ORT, ncnn, NNEF, Caffe, Darknet, CTranslate2,
MXNet, MindSpore, Paddle, XGBoost, LightGBM, DDUF, llamafile, RTen,
BinTensors, Carton, TVM Model Library Format, zip and tar, and the
stores and registries of Ollama. Uncompressed local data is never
copied; compressed or remote data is unpacked or downloaded once,
verified, and cached.
.
The package includes the helper of mount(8), so that models can be mounted with
mount -t weightfs and from /etc/fstab.")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Ordinary users mount through fusermount3.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "fuse3")
if(CMAKE_CROSSCOMPILING)
  # The preset release-arm64. dpkg-shlibdeps knows only installed packages, and ISA-L is unpacked (scripts/dependencies).
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_SOURCE_DIR}/build/arm64-root/usr/lib/aarch64-linux-gnu)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "fuse3, libisal2")
endif()
# For downloads over https.
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS ca-certificates)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
  ${CMAKE_CURRENT_SOURCE_DIR}/postinst ${CMAKE_CURRENT_SOURCE_DIR}/prerm ${CMAKE_CURRENT_SOURCE_DIR}/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Directories are 0755 regardless of the umask of the build.
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
