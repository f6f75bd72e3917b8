import tofu
from tests.models.plain import plain_cnn


def test_a_training_graph(check_golden):
    model = plain_cnn()
    check_golden("cnn.txt", f"{tofu.partition(model.symbol, 2, **model.shapes).planned().graph}\n")
