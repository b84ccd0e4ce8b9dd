"""Prints what the Python module reads of the models beside this file, for Python 3.9 and NumPy 1.19."""
import os
import zlib

import weightfs

HERE = os.path.dirname(os.path.abspath(__file__))
for name in ("demo.gguf", "demo.pt", "demo.safetensors"):
    with weightfs.open(os.path.join(HERE, name)) as model:
        for tensor in model:
            array, part = model[tensor], model.tensor(tensor)[1:2]
            print(name, tensor, array.dtype, array.shape, zlib.crc32(array.tobytes()), zlib.crc32(part.tobytes()))
