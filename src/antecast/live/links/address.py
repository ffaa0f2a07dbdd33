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
        known = port.isdecimal() and int(port) <= 65535 and _may_be_host(bare)
        if not colon or not known or (":" in bare) != bracketed:
            problem = f"expected HOST:PORT, such as 127.0.0.1:7000 or [::1]:7000, got {text!r}"
            raise ConfigurationError(problem, field=field)
        if not int(port) and field != "listen":
            raise ConfigurationError(f"port 0 is for listening on any; got {text!r}", field=field)
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


def _may_be_host(host: str) -> bool:
    """Whether the system can be asked where that is; of other names it makes errors that are not its own.

    >>> [_may_be_host(host) for host in ("::1", "fe80::1%eth0", "münchen.example", "a..b", "x" * 64, "a b", "")]
    [True, True, True, False, False, False, False]
    """
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return bool(host) and all(each.isprintable() and not each.isspace() for each in host)
