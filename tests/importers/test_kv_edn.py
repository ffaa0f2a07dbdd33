"""EDN as Clojure writes it, and histories of lists."""

import re

import pytest

import antecast
from antecast.core.errors import InputError
from antecast.importers import elle
from antecast.importers.edn import read_forms
from antecast.importers.source import Source
from antecast.kv import check


def values(text):
    return [value for _, value in read_forms(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nil true false", [None, True, False]),
        ("1 -2 3N 1.5 -2e3 1.0M", [1, -2, 3, 1.5, -2000.0, 1.0]),
        (r'"a\n\"b\" \u0041" \a \newline \u0042', ['a\n"b" A', "a", "\n", "B"]),
        (":a/b sym", ["a/b", "sym"]),
        ("{:a [1 (2 3)], :b #{1 2}}", [{"a": (1, (2, 3)), "b": frozenset({1, 2})}]),
        ("{:a #_ 1 2 #_ #_ 3 4 :b 5} ; end", [{"a": 2, "b": 5}]),
        ("#_ {:a 1} {:b 2}", [{"b": 2}]),
        ('#inst "2024-01-01" #my.Record{:a 1}', ["2024-01-01", {"a": 1}]),
        ("[{:a 1}\n {:a 2}]", [{"a": 1}, {"a": 2}]),
        ("{[1 {:x 2}] 3}", [{(1, (("x", 2),)): 3}]),
        ("", []),
    ],
)
def test_a_value(text, expected):
    assert values(text) == expected


def test_values_know_their_lines():
    text = "; first\n{:a\n 1}\n\n{:b 2} {:c 3}"
    assert [(place.line, value) for place, value in read_forms(text)] == [
        (2, {"a": 1}),
        (5, {"b": 2}),
        (5, {"c": 3}),
    ]


@pytest.mark.parametrize("value", ["[:w x @]", "[:w @ 1]", "@", "[:r x @]"])
def test_what_nests_too_deep_is_refused_at_its_line(value, tmp_path):
    with pytest.raises(InputError, match=r"edn:2: (.*is not \[:r key value\]|keys or values nest too deep)"):
        judged(ok(0, "[:w x 1]") + ok(1, value.replace("@", "[" * 5000 + "]" * 5000)), tmp_path)


def test_nesting_has_no_limit():
    (value,) = values("{:a " + "[" * 5000 + "]" * 5000 + "}")
    assert isinstance(value["a"], tuple)


def judged(text, tmp_path):
    file = tmp_path / "history.edn"
    file.write_text(text)
    return check(elle.read(Source((file,))))


def ok(process, *operations):
    return f"{{:type :ok, :process {process}, :f :txn, :value [{' '.join(operations)}]}}\n"


def test_a_keyword_is_not_its_text(tmp_path):
    assert judged(ok(0, "[:w :x :a]") + ok(1, "[:r :x :a]"), tmp_path).outcome == "kept"
    assert judged(ok(0, "[:w :x :a]") + ok(1, '[:r "x" :a]'), tmp_path).counts == {"thin-air-read": 1}
    assert judged(ok(0, "[:w :x :a]") + ok(1, '[:r :x "a"]'), tmp_path).counts == {"thin-air-read": 1}


def test_lists_that_agree_are_kept(tmp_path):
    text = ok(0, "[:append x 1]") + ok(1, "[:append x 2]") + ok(2, "[:r x [1]]") + ok(2, "[:r x [1 2]]")
    assert judged(text + ok(3, "[:r x [1 2]]", "[:r y nil]"), tmp_path).outcome == "kept"


def test_lists_of_different_orders_do_not_converge(tmp_path):
    text = ok(0, "[:append x 1]") + ok(1, "[:append x 2]") + ok(2, "[:r x [1 2]]") + ok(3, "[:r x [2 1]]")
    verdict = judged(text, tmp_path)
    assert verdict.levels["CCv"] == "violated"
    assert verdict.levels["CC"] == "inconclusive"  # each reader may have an order of its own


def test_a_list_that_lacks_its_past_is_a_violation(tmp_path):
    """The reader has seen 1 by way of y, and its list is [2]."""
    text = (
        ok(0, "[:append x 1]", "[:append y 1]")
        + ok(1, "[:append x 2]")
        + ok(2, "[:r y [1]]")
        + ok(2, "[:r x [2]]")
    )
    verdict = judged(text, tmp_path)
    assert verdict.levels["CC"] == "violated" and list(verdict.counts) == ["conflict-CO"]
    assert "does not show it: read x ending in 2" in verdict.witness.words


def test_a_list_against_causality_is_a_violation(tmp_path):
    text = ok(0, "[:append x 1]") + ok(0, "[:append x 2]") + ok(1, "[:r x [2 1]]")
    assert judged(text, tmp_path).levels["CC"] == "violated"


def test_own_appends_at_the_end_of_a_list_are_read(tmp_path):
    text = ok(0, "[:append x 1]") + ok(1, "[:append x 2]", "[:r x [1 2]]")
    assert judged(text, tmp_path).outcome == "kept"


def test_what_is_no_transaction_is_left_out_and_counted(tmp_path):
    text = "{:type :info, :process :nemesis, :f :kill, :value nil}\n" + ok(0, "[:w x 1]")
    assert (
        "operations that are not transactions of clients (1) were left out" in judged(text, tmp_path).assumptions
    )


def test_an_invocation_without_an_answer_is_indeterminate(tmp_path):
    text = "{:type :invoke, :process 0, :f :txn, :value [[:w x 1] [:r y nil]]}\n" + ok(1, "[:r x 1]")
    assert judged(text, tmp_path).outcome == "kept"


def test_registers_without_transactions(tmp_path):
    text = "{:type :ok, :process 0, :f :write, :value 3}\n{:type :ok, :process 0, :f :read, :value nil}\n"
    assert judged(text, tmp_path).levels["read-your-writes"] == "violated"


READS = """{:index 0 :time 10 :process 0 :type :ok :f :txn :value [[:w x 1]]}
{:index 1 :time 10 :process 0 :type :ok :f :txn :value [[:w x 2]]}
{:index 2 :time 20 :process 1 :type :ok :f :txn :value [[:r x 2]]}
{:index 3 :time 30 :process 1 :type :ok :f :txn :value [[:r x 1]]}
"""


@pytest.mark.parametrize("told", ["index", "time"])
def test_lines_that_are_not_in_the_order_of_their_process_are_refused(told, tmp_path):
    """A session that reads an old value last is wrong; the same lines the other way round would be right."""
    text = re.sub(r":time \d+" if told == "index" else r":index \d+", "", READS)
    first, second, third, fourth = text.splitlines()
    file = tmp_path / "h.edn"
    file.write_text(text)
    assert antecast.audit(file).levels["monotonic-reads"] == "violated"
    file.write_text("\n".join([first, second, fourth, third]))
    with pytest.raises(InputError, match=f":4: :{told} of process 1 is .* after .*:3"):
        antecast.audit(file)
    file.write_text("\n".join([third, fourth, first, second]))  # processes have no order among them
    assert antecast.audit(file).levels["monotonic-reads"] == "violated"


def test_a_line_that_is_there_twice_is_refused_by_its_index(tmp_path):
    file = tmp_path / "h.edn"
    file.write_text(READS + READS.splitlines()[3])
    with pytest.raises(InputError, match=r":5: :index of process 1 is 3 after 3"):
        antecast.audit(file)


@pytest.mark.parametrize("process", ['"c1"', ":c1", "[1 2]", "{:id 1}", "1.5"])
def test_a_process_of_any_name_that_reads_and_writes_is_a_client(process, tmp_path):
    """What it did is judged, not left out as if it were the doing of a nemesis."""
    file = tmp_path / "h.edn"
    file.write_text(
        "{:process :nemesis :type :info :f :kill :value nil}\n"
        + READS.replace(":process 1", f":process {process}")
    )
    verdict = antecast.audit(file)
    assert verdict.levels["monotonic-reads"] == "violated" and verdict.sessions == 2
