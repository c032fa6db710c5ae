"""Which locations a table may lead to: its metadata is written by others, and read with the reader's rights.

By default a table that was opened in a remote store leads to no local file, and no table leads to a host that hands out
the credentials of a machine. With `allowed-locations`, only what the reader has named is reached. A location that
`relocate` moves is the reader's own choice, as far as it stays below the new prefix. The page Security says why.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from lakescan.errors import LocationRefused
from lakescan.storage.errors import redact
from lakescan.storage.locations import absolute, is_in, normal, split_location, store_of

ALLOWED = "allowed-locations"
# Stores whose locations begin with the name of a bucket: no part of a location is the address of a host.
_BUCKETS = ("s3://", "s3a://", "s3n://", "gs://", "gcs://")
_METADATA_HOSTS = (
    *("metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"),
    "metadata.tencentyun.com",
)
_METADATA_ADDRESSES = tuple(
    map(
        ipaddress.ip_address,
        # Alibaba, AWS, AWS's pods, Google, Oracle; of 4 bytes those that are not link-local, such as Azure's.
        (
            *("100.100.100.200", "168.63.129.16", "192.0.0.192"),
            *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),
        ),
    )
)
# IPv6 networks whose last 4 bytes are an IPv4 address: compatible, mapped, NAT64.
_OF_IPV4 = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96")))
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")  # other dots in names of hosts (RFC 3490)


@dataclass(frozen=True)
class AllowedLocations:
    """What a table may lead to; `home` is where it was opened, None where that is not known yet.

    `prefixes` are those of the option `allowed-locations`; None without it. `is_named` means that the reader has named
    the home, and not a catalog.
    """

    home: str | None = None
    prefixes: tuple[str, ...] | None = None
    is_named: bool = True

    @staticmethod
    def catalog_limits(properties: Mapping[str, str]) -> AllowedLocations:
        """Return the limits of a catalog's own properties, for files that the catalog's entries name."""
        limits = properties.get(ALLOWED)
        return AllowedLocations("/", None if limits is None else split_prefixes(limits), is_named=False)

    def at(self, home: str, prefixes: Sequence[str] | None, *, is_named: bool = True) -> AllowedLocations:
        """These for a table opened at `home`, a place that the reader has named, or else its catalog."""
        if prefixes is None:
            return AllowedLocations(home, None, is_named)
        own = [_folder_of(home)] if is_named else []
        return AllowedLocations(home, tuple(map(absolute, (*prefixes, *own))), is_named)

    def check(self, location: str) -> None:
        """Raise `LocationRefused` for a location that the table must not lead to."""
        if self.prefixes is not None:
            if not any(_is_below(location, each) for each in self.prefixes):
                raise LocationRefused(
                    f"{redact(location)} is not below one of the allowed-locations of this table "
                    f"({', '.join(map(redact, self.prefixes)) or 'none'}): nothing was read or written there. If the "
                    "table is to be trusted, add its prefix; a table of a catalog needs that of its own folder, too."
                )
            return
        if self.home is None or location.startswith(_BUCKETS):
            return
        scheme, authority, _ = split_location(location)
        if scheme == "file":
            if split_location(self.home)[0] != "file":
                raise LocationRefused(
                    f"the table at {redact(self.home)} names a local file, {redact(location)}: a table in a remote "
                    "store "
                    "must not lead to files of this machine. If its files were copied here, pass relocate={old_prefix: "
                    "new_prefix}."
                )
        elif hands_out_credentials(authority):
            raise LocationRefused(
                f"{redact(location)} is on a host that hands out credentials of this machine: no table may lead there"
            )

    def check_moved(self, location: str, prefix: str) -> None:
        """Raise `LocationRefused` for a location that `relocate` has moved, and that climbs out of the new prefix."""
        if ".." in location and not is_in(normal(location), normal(prefix)) and normal(location) != normal(prefix):
            raise LocationRefused(
                f"{redact(location)} is not below {redact(prefix)}, to which relocate has moved it: its path climbs out"
            )


def split_prefixes(limits: str) -> tuple[str, ...]:
    """Split the text of `allowed-locations` into its prefixes."""
    return tuple(each.strip() for each in limits.split(",") if each.strip())


def _folder_of(home: str) -> str:
    """The folder of a table that was opened by its folder or by an Iceberg metadata file."""
    if not home.endswith(".json"):
        return home
    return home.rpartition("/")[0].removesuffix("/metadata") or "/"


def _is_below(location: str, prefix: str) -> bool:
    """Whether a location is a prefix, or below it; of local files also once all links are followed."""
    scheme, authority, path = split_location(location)
    its_scheme, its_authority, its_path = split_location(prefix)
    if store_of(scheme) != store_of(its_scheme):
        return False
    if scheme == "file":
        return authority in ("", "localhost") and _is_in(os.path.realpath(path), os.path.realpath(its_path))
    if not its_authority and not its_path.strip("/"):
        return True  # `s3://` is all of a kind of stores
    if _root(scheme, authority) != _root(its_scheme, its_authority):
        return False
    if _is_plain(path) and _is_plain(its_path):  # nearly all are: Arrow takes a millisecond for one
        return _is_in(path.rstrip("/"), its_path.rstrip("/"))
    return _is_in(normal(location), normal(prefix))


@lru_cache(maxsize=256)
def _root(scheme: str, authority: str) -> str:
    """The normal form of a store: hosts are spelled in several ways."""
    return normal(f"{scheme}://{authority}")


def _is_plain(path: str) -> bool:
    """Whether a path is in its normal form, but for slashes at its end."""
    return path.startswith("/") and "/." not in path and "//" not in path.rstrip("/")


def _is_in(place: str, folder: str) -> bool:
    return place == folder or is_in(place, folder)


@lru_cache(maxsize=256)
def hands_out_credentials(authority: str) -> bool:
    """Whether a host, with its user and port if any, hands out the credentials of a machine, by its spelling.

    Numbers of addresses may be octal, hexadecimal or joined, as the system's resolver reads them.
    """
    text = unicodedata.normalize("NFKC", unquote(authority).translate(_DOTS)).strip().lower().rpartition("@")[2]
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    else:
        host = text if text.count(":") > 1 else text.partition(":")[0]
    host = host.partition("%")[0].rstrip(".")  # `%` begins the zone of an IPv6 address
    if host in _METADATA_HOSTS:
        return True
    address: ipaddress.IPv4Address | ipaddress.IPv6Address
    try:
        if ":" in host:
            address = _unmap_ipv6(ipaddress.IPv6Address(host))
        else:
            address = ipaddress.IPv4Address(socket.inet_aton(host))
    except (ValueError, OSError):
        return False
    return address.is_link_local or address in _METADATA_ADDRESSES


def _unmap_ipv6(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Return the IPv4 address that an IPv6 address stands for; another IPv6 address as it is."""
    if any(address in network for network in _OF_IPV4):
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.sixtofour or address
