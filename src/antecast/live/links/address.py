"""Where a node listens."""

from __future__ import annotations

from ipaddress import ip_address

from antecast.core import ConfigurationError


class Address:
    """Where a node listens: HOST:PORT, with brackets around IPv6 addresses."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    @classmethod
    def parse(cls, text: str, *, field: str = "address") -> Address:
        """
        >>> str(Address.parse("[::1]:7000")), str(Address.parse("localhost:80"))
        ('[::1]:7000', 'localhost:80')
        """
        host, colon, port = text.rpartition(":")
        bracketed = host.startswith("[") and host.endswith("]")
        bare = host[1:-1] if bracketed else host
        if not colon or not port.isdecimal() or int(port) > 65535 or not bare or (":" in bare) != bracketed:
            problem = f"expected HOST:PORT, such as 127.0.0.1:7000 or [::1]:7000, got {text!r}"
            raise ConfigurationError(problem, field=field)
        return cls(bare, int(port))

    @property
    def loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and (self.host, self.port) == (other.host, other.port)

    def __hash__(self) -> int:
        return hash((self.host, self.port))
