"""Models for tests in which learning is not what is tested: everything given, one small network, few epochs."""

PLAIN = {
    "omega": 1.15, "rho": 0.1, "tau": 1.9, "epsilon": 0.1, "feature_norm": "l1", "layers": 2, "weight_decay": 5e-3,
    "teach": False, "epochs": 30,
}  # fmt: skip
