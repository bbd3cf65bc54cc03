"""Bytes of a connection that the parser has not seen, cut so that no piece reaches into the next request.

The parser cannot stop in the middle of what it is given: whatever is in there is parsed, and every request in there
begins. Therefore the bytes are cut beforehand. A head ends with an empty line, and so does a chunked body; any other
body has its length.
"""

END = b"\r\n\r\n"


class Unread:
    """What has arrived, in order."""

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        self._tail = b""  # the last bytes of the block under way: its end may come in two parts

    def __len__(self) -> int:
        return len(self._data) - self._at

    def add(self, data: bytes) -> None:
        self._data = self._data[self._at :] + data if len(self) else data
        self._at = 0

    def clear(self) -> None:
        self._data, self._at, self._tail = b"", 0, b""

    def take(self, most: int) -> bytes:
        """So many bytes at most, of a body whose length is known."""
        piece = self._data[self._at : self._at + most]
        self._at += len(piece)
        self._tail = b""
        return piece

    def take_block(self, most: int) -> bytes:
        """The same of a head or a chunked body: to the next empty line, and no further."""
        piece = self._data[self._at : self._at + most]
        seen = self._tail + piece
        end = seen.find(END)
        if end >= 0:
            piece = piece[: end + len(END) - len(self._tail)]
            self._tail = b""
        else:
            self._tail = seen[-len(END) + 1 :]
        self._at += len(piece)
        return piece
