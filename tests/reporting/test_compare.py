"""Labels of the plot to choose by: a line apart, inside of it, and in the order of their marks."""

from hypothesis import given
from hypothesis import strategies as st

from antecast.reporting.compare_charts import _BESIDE, _HEIGHT, _LINE, spread

places = st.lists(st.tuples(st.floats(0, 1), st.floats(20, _HEIGHT - 20)), max_size=14)


@given(places)
def test_labels_that_could_meet_stand_apart_in_the_order_of_their_marks(marks):
    labels = spread(marks)
    assert all(_LINE / 2 <= label <= _HEIGHT - _LINE / 2 for label in labels)
    for i, (x, y) in enumerate(marks):
        for j, (other_x, other_y) in enumerate(marks):
            if abs(x - other_x) < _BESIDE and (y, i) < (other_y, j):
                assert labels[j] - labels[i] >= _LINE * 0.9


def test_a_label_that_is_alone_stays_beside_its_mark():
    assert spread([(0.1, 100.0), (0.9, 100.0)]) == [100.0, 100.0]
