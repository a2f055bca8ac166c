"""What a page would be told: the messages that a view sends, kept."""

from workbench_widgets.frame import Frame


def listen(view: Frame) -> list[dict]:
    """Return the list into which everything goes that ``view`` sends from now on."""
    heard: list[dict] = []

    def send(content, buffers=None):
        heard.append({**content, "buffers": list(buffers or [])})

    object.__setattr__(view, "send", send)
    return heard


def ask(view: Frame, question: str, **content: object) -> list[dict]:
    """Ask as a page does, and return what is sent for it."""
    heard = listen(view)
    view._receive(view, {"ask": question, "req": "r1", **content}, [])
    return heard
