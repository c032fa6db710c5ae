"""The locations that a table's metadata may reference. Others may write the metadata, but the reader's rights are used.

By default, a table in a remote store cannot reference local files, and no table can reference a host that hands out
a machine's credentials. With `allowed-locations`, only locations that the reader has listed are accessed. Locations
moved by `relocate` are the reader's own choice, as long as they stay below the new prefix. The page Security explains
the reasons.
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
# Stores whose locations start with a bucket's name, so that no part of a location is a host's address.
_BUCKETS = ("s3://", "s3a://", "s3n://", "gs://", "gcs://")
_METADATA_HOSTS = (
    *("metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"),
    "metadata.tencentyun.com",
)
_METADATA_ADDRESSES = tuple(
    map(
        ipaddress.ip_address,
        # Alibaba, AWS, AWS's pods, Google, Oracle. Of IPv4 only those that are not link-local, such as Azure's.
        (
            *("100.100.100.200", "168.63.129.16", "192.0.0.192"),
            *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "fd00:c1::a9fe:a9fe"),
        ),
    )
)
# IPv6 networks whose last 4 bytes are an IPv4 address: compatible, mapped, NAT64.
_OF_IPV4 = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0/96", "64:ff9b::/96")))
_DOTS = str.maketrans("\u3002\uff0e\uff61", "...")  # characters that separate host names like dots (RFC 3490)


@dataclass(frozen=True)
class AllowedLocations:
    """The locations that a table may reference. `home` is the table's location, None if it is not known yet.

    `prefixes` are those of the option `allowed-locations`, None without it. `is_named`: the reader, not a catalog,
    named the home, and so its folder is one of the prefixes.
    """

    home: str | None = None
    prefixes: tuple[str, ...] | None = None
    is_named: bool = True

    @staticmethod
    def catalog_limits(properties: Mapping[str, str]) -> AllowedLocations:
        """Return the limits in a catalog's properties, for the metadata files that the catalog's entries name.

        Without `allowed-locations`, local files are allowed.
        """
        limits = properties.get(ALLOWED)
        return AllowedLocations("/", None if limits is None else split_prefixes(limits), is_named=False)

    def at(self, home: str, prefixes: Sequence[str] | None, *, is_named: bool = True) -> AllowedLocations:
        """Return the limits for a table opened at `home`, with these prefixes, or None without `allowed-locations`.

        `is_named`: the reader named this location, otherwise the catalog did.
        """
        if prefixes is None:
            return AllowedLocations(home, None, is_named)
        own = [_folder_of(home)] if is_named else []
        return AllowedLocations(home, tuple(map(absolute, (*prefixes, *own))), is_named)

    def check(self, location: str) -> None:
        """Raise `LocationRefused` for a location that the table must not reference; see this module's rules."""
        if self.prefixes is not None:
            if not any(_is_below(location, each) for each in self.prefixes):
                raise LocationRefused(
                    f"{redact(location)} is not below one of the allowed-locations of this table "
                    f"({', '.join(map(redact, self.prefixes)) or 'none'}): nothing was read or written there. If you "
                    "trust the table, add its prefix. A catalog's table also needs the prefix of its own folder."
                )
            return
        if self.home is None or location.startswith(_BUCKETS):
            return
        scheme, authority, _ = split_location(location)
        if scheme == "file":
            if split_location(self.home)[0] != "file":
                raise LocationRefused(
                    f"the table at {redact(self.home)} references a local file, {redact(location)}: a table in a "
                    "remote store "
                    "must not reference files of this machine. If its files were copied here, pass relocate="
                    "{old_prefix: new_prefix}."
                )
        elif hands_out_credentials(authority):
            raise LocationRefused(
                f"{redact(location)} is on a host that hands out this machine's credentials: no table may use it"
            )

    def check_moved(self, location: str, prefix: str) -> None:
        """Raise `LocationRefused` for a relocated location whose `..` leads out of the new `prefix`."""
        if ".." in location and not is_in(normal(location), normal(prefix)) and normal(location) != normal(prefix):
            raise LocationRefused(
                f"relocate moved a location below {redact(prefix)}, but the path {redact(location)} leads out of it"
            )


def split_prefixes(limits: str) -> tuple[str, ...]:
    """Split the value of `allowed-locations` at commas into its prefixes, without white space and empty ones."""
    return tuple(each.strip() for each in limits.split(",") if each.strip())


def _folder_of(home: str) -> str:
    """Return the folder of a table that was opened at `home`: its folder, or an Iceberg metadata file."""
    if not home.endswith(".json"):
        return home
    return home.rpartition("/")[0].removesuffix("/metadata") or "/"


def _is_below(location: str, prefix: str) -> bool:
    """Return whether a location equals a prefix or is below it. Symlinks of local files are resolved first."""
    scheme, authority, path = split_location(location)
    its_scheme, its_authority, its_path = split_location(prefix)
    if store_of(scheme) != store_of(its_scheme):
        return False
    if scheme == "file":
        return authority in ("", "localhost") and _is_in(os.path.realpath(path), os.path.realpath(its_path))
    if not its_authority and not its_path.strip("/"):
        return True  # `s3://` allows all buckets
    if _root(scheme, authority) != _root(its_scheme, its_authority):
        return False
    if _is_plain(path) and _is_plain(its_path):  # the usual case; normalizing takes Arrow a millisecond
        return _is_in(path.rstrip("/"), its_path.rstrip("/"))
    return _is_in(normal(location), normal(prefix))


@lru_cache(maxsize=256)
def _root(scheme: str, authority: str) -> str:
    """Return the normal form of a scheme and authority, as a location. Hosts can be written in several ways."""
    return normal(f"{scheme}://{authority}")


def _is_plain(path: str) -> bool:
    """Return whether a path is in its normal form, except for trailing slashes. False if that is unclear."""
    return path.startswith("/") and "/." not in path and "//" not in path.rstrip("/")


def _is_in(place: str, folder: str) -> bool:
    return place == folder or is_in(place, folder)


@lru_cache(maxsize=256)
def hands_out_credentials(authority: str) -> bool:
    """Return whether an authority (host, and optional user and port) is a known metadata service of cloud machines.

    Such a service hands out the machine's credentials. Numbers in IP addresses may be octal, hexadecimal or joined, as
    the system's resolver parses them.
    """
    text = unicodedata.normalize("NFKC", unquote(authority).translate(_DOTS)).strip().lower().rpartition("@")[2]
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    else:
        host = text if text.count(":") > 1 else text.partition(":")[0]
    host = host.partition("%")[0].rstrip(".")  # `%` starts the zone of an IPv6 address
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
    """Return the IPv4 address embedded in an IPv6 address, or else the IPv6 address."""
    if any(address in network for network in _OF_IPV4):
        return ipaddress.IPv4Address(address.packed[-4:])
    return address.sixtofour or address
