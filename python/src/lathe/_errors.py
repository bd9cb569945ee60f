"""The exception that every failing call of the library raises."""

import enum


class Status(enum.IntEnum):
    """The reason of a failure; include/lathe/types.h explains each."""

    OK = 0
    INVALID_ARGUMENT = 1
    UNSUPPORTED = 2
    NOT_AVAILABLE = 3
    OUT_OF_MEMORY = 4
    COMPILE_FAILED = 5
    MISS = 6
    CAPTURE_MISS = 7
    TIMEOUT = 8
    INTERNAL = 9
    CANCELLED = 10


class Error(RuntimeError):
    """A call of Lathe failed. The text is lathe_last_error(), which names the request and the cause."""

    def __init__(self, status, message):
        super().__init__(message)
        #: A lathe.Status.
        self.status = Status(status)

    def __reduce__(self):
        return type(self), (int(self.status), str(self))
