"""sudo's password, given when sudo asks for it and at no other time."""

# In a target's command line; each connection puts in what nothing else can print.
PROMPT = "rdmaprov-prompt"


class Refused(Exception):
    """sudo asks once more: the password was not the right one."""


class Sudo:
    """What sudo asked on one connection.

    It asks on its standard error and reads from the pipe in which the agent comes. Where it does
    not ask, a password that was written ahead would be read as a part of the agent.
    """

    def __init__(self, prompt: str, password: str) -> None:
        self._prompt = prompt.encode()
        self._password = password
        self._asked = 0

    def answer(self, said: bytes) -> bytes:
        """Return what to write now, which is nothing unless sudo asks for the first time.

        Raises:
            Refused: it asks again. A second wrong try might lock the user out.
        """
        asked = said.count(self._prompt)
        if asked > 1:
            raise Refused
        first = asked > self._asked
        self._asked = max(asked, self._asked)  # what was said long ago is not in `said` any more
        return self._password.encode() + b"\n" if first else b""
