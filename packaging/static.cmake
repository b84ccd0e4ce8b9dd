# One static file with position-independent code (static-pie), for any Linux: included with WEIGHTFS_STATIC, before libraries are
# searched. scripts/static-libraries builds those that Debian has no archive of.

if(CMAKE_SYSTEM_PROCESSOR STREQUAL aarch64)
  list(PREPEND CMAKE_PREFIX_PATH ${CMAKE_SOURCE_DIR}/build/static/arm64)
else()
  list(PREPEND CMAKE_PREFIX_PATH ${CMAKE_SOURCE_DIR}/build/static/amd64)
endif()
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(OPENSSL_USE_STATIC_LIBS ON)
# At the end of the command: libcurl, libzip and libarchive need these, and archives may need each other.
set(CMAKE_CXX_STANDARD_LIBRARIES "-Wl,--start-group -lssl -lcrypto -lnghttp2 -lz -lbz2 -llz4 -lzstd -llzma -Wl,--end-group")

# Links `target` as one static file.
function(weightfs_link_static target)
  # With the compiler's -pie, -static-pie would not be complete.
  set_property(TARGET ${target} PROPERTY POSITION_INDEPENDENT_CODE)
  target_compile_options(${target} PRIVATE -fPIE)
  target_link_options(${target} PRIVATE -static-pie -Wl,--gc-sections)
endfunction()
