"""scikit-learn's model selection on a graph: node ids are X, labels are y."""

from __future__ import annotations

import numpy as np
from sklearn.model_selection import GridSearchCV, cross_val_score

import nodewise as nw


def main() -> None:
    graph = nw.synthetic.dcsbm(1000, avg_degree=8, classes=3, homophily=0.7, features=8, seed=1)
    nodes = np.random.default_rng(0).choice(graph.num_nodes, 200, replace=False).reshape(-1, 1)
    labels = graph.labels[nodes[:, 0]]

    scores = cross_val_score(nw.BoundClassifier(graph), nodes, labels, cv=3)
    print(f"accuracy of three folds: {scores.round(3)}")

    plain = nw.NIGCN(rho=1.0, layers=2, weight_decay=0.005, teach=False)  # one network, hop weights by a heat kernel
    choices = {"estimator__omega": [0.5, 1.0, 3.0]}
    search = GridSearchCV(nw.BoundClassifier(graph, plain), choices, cv=3).fit(nodes, labels)
    print(f"best hop weights: {search.best_params_}, accuracy {search.best_score_:.3f}")


if __name__ == "__main__":
    main()
