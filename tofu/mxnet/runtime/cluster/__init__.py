"""Several machines: gradients go between them, around a model that is partitioned within each."""
