"""The flat columns of a Record, each told once: SQL, CSV, JSON, the tables of models and the explorer follow."""
