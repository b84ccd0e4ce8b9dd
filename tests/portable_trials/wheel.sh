# Trials of the Python module. NumPy is that of Debian: pip downloads nothing.

_reads_values() { "$1" ../values.py | cmp - ../expected-values; }

_install() { python3 -m venv --system-site-packages "$1" && "$1/bin/pip" install -q --no-index "$2"; }

# The wheel has the program: there is no other on PATH.
wheel() {
  _install of-wheel ../*.whl && of-wheel/bin/weightfs ls ../demo.gguf && _reads_values of-wheel/bin/python
}

# A checkout has no program: the module finds that of $WEIGHTFS, or that on PATH.
checkout() {
  _install of-checkout ../python && ! of-checkout/bin/python ../values.py &&
    WEIGHTFS=/weightfs _reads_values of-checkout/bin/python && PATH=/:$PATH _reads_values of-checkout/bin/python
}
