"""What the first node is asked is fetched from the others at once."""

from rdmaprov.probe.learning import Learning

NODES = ("n1", "n2", "n3", "n4")


def to_others(commands):
    return dict.fromkeys(("n2", "n3", "n4"), commands)


def taught(*commands, together=True):
    learning = Learning(NODES, together)
    assert [learning.plan("n1", command) for command in commands] == [{}] * len(commands)
    return learning


def test_first_node_is_asked_one_by_one_and_the_others_all_at_once():
    assert taught("a", "b").plan("n3", "b") == to_others(["a", "b"])


def test_what_is_missed_by_one_node_is_its_own():
    learning = taught("a")
    learning.plan("n2", "a")
    assert learning.plan("n2", "address of n2") == {}
    assert learning.plan("n3", "address of n3") == {}


def test_what_is_missed_by_two_nodes_is_fetched_from_all_others():
    learning = taught("a")
    learning.plan("n2", "a")
    assert learning.plan("n2", "b") == {}
    assert learning.plan("n3", "b") == to_others(["b"])


def test_what_the_first_node_is_asked_later_is_fetched_too():
    """A test of the whole fleet asks the first node first again."""
    learning = taught("a")
    learning.plan("n2", "a")
    assert learning.plan("n1", "c") == to_others(["c"])


def test_another_node_teaches_when_the_first_one_fails():
    learning = taught("a")
    learning.replace_teacher("n1")
    assert learning.plan("n2", "a") == {}
    assert learning.plan("n2", "b") == {}
    assert learning.plan("n3", "a")["n4"] == ["a", "b"]


def test_teacher_that_fails_after_its_lesson_is_not_replaced():
    learning = taught("a")
    learning.plan("n2", "a")
    learning.replace_teacher("n1")
    assert learning.plan("n3", "b") == {}


def test_process_that_judges_some_nodes_asks_only_those():
    learning = taught("a", "b", together=False)
    assert learning.plan("n3", "a") == {"n3": ["a", "b"]}
    assert learning.plan("n3", "c") == {}
    assert learning.plan("n4", "a") == {"n4": ["a", "b"]}
