import gc
import threading

import pytest

from workbench.runtime.collection import collection_paused


def test_the_collector_is_off_in_the_block_and_on_again_after_it():
    assert gc.isenabled()
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_in_the_block_turns_the_collector_on_again():
    with pytest.raises(ZeroDivisionError), collection_paused():
        raise ZeroDivisionError
    assert gc.isenabled()


def test_a_collector_that_a_person_turned_off_stays_off():
    gc.disable()
    try:
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_it_stays_off_until_the_last_of_several_threads_is_done():
    entered, leave = threading.Event(), threading.Event()

    def block():
        with collection_paused():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=block)
    with collection_paused():
        other.start()
        assert entered.wait(10)
    assert not gc.isenabled()
    leave.set()
    other.join()
    assert gc.isenabled()
