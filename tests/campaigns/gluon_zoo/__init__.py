"""Models of GluonCV, GluonNLP and Gluon's own zoo, at sizes that a step of takes seconds."""
