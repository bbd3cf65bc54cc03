"""Which server, with which token, verified by which certificates: checked before the first request."""

import ssl
from dataclasses import field
from urllib.parse import urlsplit

from bullpen.auth.loopback import is_loopback
from bullpen.errors import ConfigError
from bullpen.lazy_dataclass import dataclass

EXAMPLE = "such as https://bullpen.example.com or http://127.0.0.1:8420"
TUNNEL = "Use https://; or forward the port with `ssh -L 8420:127.0.0.1:8420 HOST` and use http://127.0.0.1:8420."


@dataclass(frozen=True, slots=True)
class Address:
    """`url` has no slash at its end. `ca_file` has the certificates that sign the server's, instead of the system's."""

    url: str
    token: str = field(default="", repr=False)
    ca_file: str = ""

    @property
    def is_encrypted(self) -> bool:
        return self.url.startswith("https://")


def checked_address(server: str, token: str = "", ca_file: str = "") -> Address:
    """Raise ConfigError for what cannot be a server's URL, and for one that would send the token in clear text."""
    url = _checked_url(server)
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            "token: must be printable ASCII characters without spaces",
            remedy="Pass the token as `bullpen token create` printed it.",
            field="token",
        )
    if token and not url.startswith("https://") and not is_loopback(urlsplit(url).hostname or ""):
        raise ConfigError(f"server {url}: would send the token in clear text", remedy=TUNNEL, field="server")
    return Address(url, token, ca_file)


def _checked_url(server: str) -> str:
    def refuse(says: str, remedy: str = "") -> ConfigError:
        shown = f"server {_without_credentials(server)[:100]!r}"
        return ConfigError(
            f"{shown}: {says}", remedy=remedy or f"Set it to the server's URL, {EXAMPLE}.", field="server"
        )

    try:
        parts = urlsplit(server.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as exc:
        raise refuse(f"is not a URL ({exc})") from exc
    if parts.scheme not in ("http", "https") or not host:
        raise refuse("must be a URL that begins with https:// or http://")
    if parts.username is not None or parts.password is not None:
        raise refuse("must not contain a user or a password", "Pass the token as BULLPEN_TOKEN or --token-file.")
    if parts.query or parts.fragment or not server.strip().isprintable() or " " in server.strip():
        raise refuse("must not contain spaces, ? or #")
    return f"{parts.scheme}://{parts.netloc}{parts.path}".rstrip("/").removesuffix("/v1")


def _without_credentials(url: str) -> str:
    """Without what stands before an @: it may be a password."""
    head, at, rest = url.rpartition("@")
    return f"{head.partition('://')[0]}://…@{rest}" if at else url


def certificates(address: Address) -> ssl.SSLContext:
    """Verifies the server's certificate. Without `ca_file` the system's authorities count, or those that SSL_CERT_FILE
    and SSL_CERT_DIR name. Raise ConfigError for a file that has no certificates."""
    try:
        context = ssl.create_default_context(cafile=address.ca_file or None)
    except (OSError, ValueError) as exc:  # an SSLError is an OSError
        reason = "contains no certificate" if isinstance(exc, ssl.SSLError) else getattr(exc, "strerror", None) or exc
        raise ConfigError(
            f"ca-file {address.ca_file}: {reason}",
            remedy="Name a PEM file with the certificate of the authority that signed the server's.",
            field="ca-file",
        ) from exc
    if not address.ca_file and not context.cert_store_stats()["x509_ca"]:
        import certifi  # comes with httpx; a minimal system has no authorities of its own

        context.load_verify_locations(certifi.where())
    return context
