"""The paper's laboratory: its rivals, comparisons with them, its tables and figures."""
